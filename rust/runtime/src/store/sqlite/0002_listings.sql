-- When things happened, and indexes by which leases and open requests are listed across conversations.

ALTER TABLE conversation ADD COLUMN written_at_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE request ADD COLUMN made_at_ms INTEGER NOT NULL DEFAULT 0;

-- Nobody wrote down when these were made: not after now.
UPDATE conversation SET written_at_ms = CAST(unixepoch('subsec') * 1000 AS INTEGER);
UPDATE request SET made_at_ms = CAST(unixepoch('subsec') * 1000 AS INTEGER);

CREATE INDEX conversation_by_lease ON conversation (lease_until_ms) WHERE lease_until_ms IS NOT NULL;
CREATE INDEX request_by_age ON request (made_at_ms) WHERE settled = 0;
CREATE INDEX request_by_expiry ON request (expires_at_ms) WHERE settled = 0 AND expires_at_ms IS NOT NULL;
