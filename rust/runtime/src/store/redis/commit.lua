-- A commit: all of it or nothing. Whatever could refuse it is looked at before the first change.
-- KEYS: the conversation; its settled requests; of all conversations of its shard the leases by their end, the open
-- requests by age, and by expiry.
-- ARGV: our format, the id, the expected version, the new one, the name of the write, its time, epoch, state, lease
-- (1 or 0), owner, epoch and end of the lease, the number of messages, field and body of each; then of each request its
-- id, whether it is settled (1 or 0), when it was made, when it expires (empty if never), and the request.
local conversation, settled, leases, by_age, by_expiry = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, expected, version, name = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local format = redis.call('HGET', conversation, 'format')
if format then
    if tonumber(format) > tonumber(ARGV[1]) then return {'newer', format} end
elseif redis.call('EXISTS', conversation) == 1 then
    return {'foreign', ''}
end
local found = redis.call('HGET', conversation, 'version') or '0'
if found ~= expected then
    if found == version and redis.call('HGET', conversation, 'written') == name then return {'done', ''} end
    return {'conflict', found}
end
local first, requests = 14, 14 + 2 * tonumber(ARGV[13])
local fresh = {}
for at = first, requests - 1, 2 do
    local place = ARGV[at]
    if fresh[place] or redis.call('HEXISTS', conversation, place) == 1 then return {'taken', place} end
    fresh[place] = true
end
-- These fail if they are of another kind.
redis.call('HLEN', settled)
redis.call('ZCARD', leases)
redis.call('ZCARD', by_age)
redis.call('ZCARD', by_expiry)

redis.call('HSET', conversation, 'format', ARGV[1], 'version', version, 'written', name, 'written_at_ms', ARGV[6],
    'epoch', ARGV[7], 'state', ARGV[8])
if ARGV[9] == '1' then
    redis.call('HSET', conversation, 'lease_owner', ARGV[10], 'lease_epoch', ARGV[11], 'lease_until_ms', ARGV[12])
    redis.call('ZADD', leases, ARGV[12], id)
elseif redis.call('HDEL', conversation, 'lease_owner', 'lease_epoch', 'lease_until_ms') > 0 then
    redis.call('ZREM', leases, id)
end
for at = first, requests - 1, 2 do
    redis.call('HSET', conversation, ARGV[at], ARGV[at + 1])
end
for at = requests, #ARGV, 5 do
    local request, made, expires, body = ARGV[at], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
    local member = id .. '\0' .. request
    redis.call('ZREM', by_expiry, member)
    if ARGV[at + 1] == '1' then
        redis.call('HDEL', conversation, 'r:' .. request)
        redis.call('HSET', settled, request, body)
        redis.call('ZREM', by_age, member)
    else
        redis.call('HDEL', settled, request)
        redis.call('HSET', conversation, 'r:' .. request, body)
        redis.call('ZADD', by_age, made, member)
        if expires ~= '' then redis.call('ZADD', by_expiry, expires, member) end
    end
end
return {'done', ''}
