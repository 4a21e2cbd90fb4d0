-- Conversations, their messages and their requests.

CREATE TABLE conversation (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    state INTEGER NOT NULL, -- 0 idle, 1 running, 2 pending
    lease_owner TEXT,
    lease_epoch INTEGER,
    lease_until_ms INTEGER
) STRICT;

-- One row a message, in the order of reading: place = conversation number * 2^32 + seq.
-- The place is the row id, so there is no index beside the table.
CREATE TABLE message (
    place INTEGER PRIMARY KEY,
    body BLOB NOT NULL
) STRICT;

-- Settled requests stand apart from the open ones, so that a load never walks over the old ones.
CREATE TABLE request (
    conversation INTEGER NOT NULL,
    settled INTEGER NOT NULL,
    id TEXT NOT NULL,
    expires_at_ms INTEGER,
    slots BLOB NOT NULL,   -- frames: seq and call of each slot, in turns
    body BLOB NOT NULL,
    answers BLOB NOT NULL, -- frames: one for each answer
    outcome BLOB,
    PRIMARY KEY (conversation, settled, id)
) STRICT, WITHOUT ROWID;
