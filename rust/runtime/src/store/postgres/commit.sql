-- A commit: all of it or nothing, because it is one statement. No row means that it did not apply.
-- $1 newest schema, $2 patience with locks, $3 id, $4 expected version, $5 new version, $6 name of the write, $7 its time,
-- $8 epoch, $9 state, $10 to $12 lease, $13 and $14 messages, $15 to $22 requests
WITH patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', $2, true) WHERE NOT EXISTS (SELECT FROM {schema}.migration WHERE number > $1)
),
moved AS (
    {moved}
),
placed AS (
    INSERT INTO {schema}.message (conversation, seq, body)
    SELECT moved.number, seq, body FROM moved, unnest($13::bigint[], $14::bytea[]) AS added (seq, body)
),
asked AS (
    INSERT INTO {schema}.request
        (conversation, conversation_id, id, settled, made_at_ms, expires_at_ms, slots, body, answers, outcome)
    SELECT moved.number, $3, added.*
    FROM moved, unnest($15::bytea[], $16::boolean[], $17::bigint[], $18::bigint[], $19::bytea[], $20::bytea[],
        $21::bytea[], $22::bytea[]) AS added
    ON CONFLICT (conversation, id) DO UPDATE
    SET (settled, made_at_ms, expires_at_ms, slots, body, answers, outcome) = ROW (excluded.settled, excluded.made_at_ms,
        excluded.expires_at_ms, excluded.slots, excluded.body, excluded.answers, excluded.outcome)
)
SELECT number FROM moved
