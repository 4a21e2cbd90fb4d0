-- The first entries of an index behind a place: each name, and its time.
-- KEYS: the index. ARGV: how many at most; then, unless the page is the first, the time and name behind which it begins.
local index, limit, at, after = KEYS[1], tonumber(ARGV[1]), ARGV[2], ARGV[3]
if not at then return redis.call('ZRANGE', index, 0, limit - 1, 'WITHSCORES') end

-- By bytes, as the index is: Lua compares by the server's language.
local function is_behind(name)
    for n = 1, math.min(#name, #after) do
        local ours, theirs = name:byte(n), after:byte(n)
        if ours ~= theirs then return ours > theirs end
    end
    return #name > #after
end

-- Entries of one time stand in the order of their names.
local low = redis.call('ZCOUNT', index, '-inf', '(' .. at)
local high = low + redis.call('ZCOUNT', index, at, at)
while low < high do
    local middle = math.floor((low + high) / 2)
    if is_behind(redis.call('ZRANGE', index, middle, middle)[1]) then high = middle else low = middle + 1 end
end
return redis.call('ZRANGE', index, low, low + limit - 1, 'WITHSCORES')
