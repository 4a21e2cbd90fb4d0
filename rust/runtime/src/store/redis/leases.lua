-- The leases of conversations: format, owner, epoch and end of each.
-- KEYS: the conversations.
local found = {}
for at, conversation in ipairs(KEYS) do
    found[at] = redis.call('HMGET', conversation, 'format', 'lease_owner', 'lease_epoch', 'lease_until_ms')
end
return found
