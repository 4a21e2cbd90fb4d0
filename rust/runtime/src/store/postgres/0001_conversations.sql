-- Conversations, their messages and their requests.

CREATE TABLE {schema}.conversation (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    version bigint NOT NULL,
    written bytea NOT NULL, -- names the last write
    written_at_ms bigint NOT NULL,
    epoch bigint NOT NULL,
    state smallint NOT NULL, -- 0 idle, 1 running, 2 pending
    lease_owner text,
    lease_epoch bigint,
    lease_until_ms bigint
);

CREATE TABLE {schema}.message (
    conversation bigint NOT NULL, -- its number
    seq bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (conversation, seq)
);

CREATE TABLE {schema}.request (
    conversation bigint NOT NULL, -- its number
    conversation_id text COLLATE "C" NOT NULL,
    id bytea NOT NULL,
    settled boolean NOT NULL,
    made_at_ms bigint NOT NULL,
    expires_at_ms bigint,
    slots bytea NOT NULL,   -- frames: seq and call of each slot, in turns
    body bytea NOT NULL,
    answers bytea NOT NULL, -- frames: one for each answer
    outcome bytea,
    PRIMARY KEY (conversation, id)
);

-- A load never walks over the settled ones.
CREATE INDEX request_open ON {schema}.request (conversation) WHERE NOT settled;

-- Leases and open requests are listed across conversations, each listing along its index.
CREATE INDEX conversation_by_lease ON {schema}.conversation (lease_until_ms, id) WHERE lease_until_ms IS NOT NULL;
CREATE INDEX request_by_age ON {schema}.request (made_at_ms, conversation_id, id) WHERE NOT settled;
CREATE INDEX request_by_expiry ON {schema}.request (expires_at_ms, conversation_id, id)
    WHERE NOT settled AND expires_at_ms IS NOT NULL;
