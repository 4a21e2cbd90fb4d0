-- A request, in its own words if it is open, or if it is settled.
-- KEYS: the conversation; its settled requests. ARGV: the request's id.
return {
    redis.call('HGET', KEYS[1], 'format'),
    redis.call('HGET', KEYS[1], 'r:' .. ARGV[1]),
    redis.call('HGET', KEYS[2], ARGV[1]),
}
