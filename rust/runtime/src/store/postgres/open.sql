-- $1 time, $2 id and $3 request's id behind which the page begins, $4 rows at most
SELECT newest, conversation_id, id, made_at_ms, expires_at_ms, slots, body, answers, outcome
FROM (SELECT max(number) AS newest FROM {schema}.migration) AS schema LEFT JOIN LATERAL (
    SELECT * FROM {schema}.request
    WHERE NOT settled AND {time} IS NOT NULL AND ({time}, conversation_id, id) > ($1, $2, $3)
    ORDER BY {time}, conversation_id, id LIMIT $4
) AS page ON true ORDER BY {time}, conversation_id, id
