-- Why a commit did not apply. Always one row.
-- $1 id
SELECT newest, version, written
FROM (SELECT max(number) AS newest FROM {schema}.migration) AS schema
LEFT JOIN {schema}.conversation ON id = $1
