INSERT INTO {schema}.conversation
        (id, version, written, written_at_ms, epoch, state, lease_owner, lease_epoch, lease_until_ms)
    SELECT $3, $5, $6, $7, $8, $9, $10, $11, $12 FROM patience WHERE $4::bigint = 0
    ON CONFLICT (id) DO NOTHING
    RETURNING number
