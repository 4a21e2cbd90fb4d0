UPDATE {schema}.conversation
    SET version = $5, written = $6, written_at_ms = $7, epoch = $8, state = $9, lease_owner = $10, lease_epoch = $11,
        lease_until_ms = $12
    FROM patience WHERE id = $3 AND version = $4
    RETURNING number
