-- Each key's content and lifetime; nothing where the first is not there.
if redis.call('EXISTS', KEYS[1]) == 0 then
    return {}
end
local parts = {}
for i = 1, #KEYS do
    parts[2 * i - 1] = redis.call('DUMP', KEYS[i])
    parts[2 * i] = redis.call('PTTL', KEYS[i])
end
return parts
