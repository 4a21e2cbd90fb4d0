-- A deletion: all of it or nothing.
-- KEYS: as of a commit. ARGV: our format, the id, the expected version.
local conversation, settled, leases, by_age, by_expiry = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local format = redis.call('HGET', conversation, 'format')
if format then
    if tonumber(format) > tonumber(ARGV[1]) then return {'newer', format} end
elseif redis.call('EXISTS', conversation) == 1 then
    return {'foreign', ''}
end
local found = redis.call('HGET', conversation, 'version') or '0'
if found ~= ARGV[3] then return {'conflict', found} end
redis.call('ZREM', leases, ARGV[2])
for _, field in ipairs(redis.call('HKEYS', conversation)) do
    if field:sub(1, 2) == 'r:' then
        local member = ARGV[2] .. '\0' .. field:sub(3)
        redis.call('ZREM', by_age, member)
        redis.call('ZREM', by_expiry, member)
    end
end
redis.call('DEL', conversation, settled)
return {'done', ''}
