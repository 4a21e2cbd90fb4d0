-- $1 time, $2 id behind which the page begins, $3 rows at most
SELECT newest, id, lease_owner, lease_epoch, lease_until_ms
FROM (SELECT max(number) AS newest FROM {schema}.migration) AS schema LEFT JOIN LATERAL (
    SELECT id, lease_owner, lease_epoch, lease_until_ms FROM {schema}.conversation
    WHERE lease_until_ms IS NOT NULL AND (lease_until_ms, id) > ($1, $2)
    ORDER BY lease_until_ms, id LIMIT $3
) AS page ON true ORDER BY lease_until_ms, id
