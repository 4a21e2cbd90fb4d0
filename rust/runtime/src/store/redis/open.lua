-- Open requests: format of the conversation and the request.
-- KEYS: the conversations. ARGV: the id of each request.
local found = {}
for at, conversation in ipairs(KEYS) do
    found[at] = redis.call('HMGET', conversation, 'format', 'r:' .. ARGV[at])
end
return found
