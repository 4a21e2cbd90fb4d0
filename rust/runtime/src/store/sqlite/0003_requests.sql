-- Requests in a table that has row ids: in one without, every row of more than a quarter of a page takes another page.

ALTER TABLE request RENAME TO request_before;

CREATE TABLE request (
    conversation INTEGER NOT NULL,
    settled INTEGER NOT NULL,
    id TEXT NOT NULL,
    made_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER,
    slots BLOB NOT NULL,   -- frames: seq and call of each slot, in turns
    body BLOB NOT NULL,
    answers BLOB NOT NULL, -- frames: one for each answer
    outcome BLOB,
    PRIMARY KEY (conversation, settled, id)
) STRICT;

INSERT INTO request
SELECT conversation, settled, id, made_at_ms, expires_at_ms, slots, body, answers, outcome FROM request_before;

DROP TABLE request_before;

CREATE INDEX request_by_age ON request (made_at_ms) WHERE settled = 0;
CREATE INDEX request_by_expiry ON request (expires_at_ms) WHERE settled = 0 AND expires_at_ms IS NOT NULL;
