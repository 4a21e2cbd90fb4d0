-- Always one row; all NULL but the first column if there is no such request.
-- $1 id, $2 the request's id
SELECT newest, settled, made_at_ms, expires_at_ms, slots, body, answers, outcome
FROM (SELECT max(number) AS newest FROM {schema}.migration) AS schema
LEFT JOIN {schema}.request ON request.id = $2
    AND request.conversation = (SELECT number FROM {schema}.conversation WHERE conversation.id = $1)
