-- A deletion: all of it or nothing. No row means that it did not apply.
-- $1 newest schema, $2 patience with locks, $3 id, $4 expected version
WITH patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', $2, true) WHERE NOT EXISTS (SELECT FROM {schema}.migration WHERE number > $1)
),
gone AS (
    DELETE FROM {schema}.conversation USING patience WHERE id = $3 AND version = $4 RETURNING number
),
messages AS (
    DELETE FROM {schema}.message USING gone WHERE message.conversation = gone.number
),
requests AS (
    DELETE FROM {schema}.request USING gone WHERE request.conversation = gone.number
)
SELECT number FROM gone
