-- One row for the conversation (all NULL but the first number if there is none), one for each message and open request.
-- $1 id
WITH found AS (
    SELECT * FROM {schema}.conversation WHERE id = $1
)
SELECT NULL::bigint, NULL::bytea, lease_owner,
    ARRAY[newest, version, written_at_ms, epoch, state, lease_epoch, lease_until_ms]::bigint[], NULL::bytea[]
FROM (SELECT max(number) AS newest FROM {schema}.migration) AS schema LEFT JOIN found ON true
UNION ALL
SELECT seq, body, NULL, NULL, NULL
FROM found JOIN {schema}.message ON message.conversation = found.number
UNION ALL
SELECT NULL, body, NULL, ARRAY[made_at_ms, expires_at_ms], ARRAY[request.id, slots, answers, outcome]
FROM found JOIN {schema}.request ON request.conversation = found.number AND NOT settled
