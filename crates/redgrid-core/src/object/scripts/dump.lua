-- dump.lua: returns the contents and the lifetimes of an object's keys.
--
-- KEYS     the keys of the object, its primary keys first
-- ARGV[1]  the number of primary keys: the object exists while one of them exists
-- Returns  for each key: its content (nil if absent), its remaining lifetime in milliseconds
--          (0: none), and the end of that lifetime in milliseconds since 1970 (0: never);
--          {} if the object is absent
if redis.call('EXISTS', unpack(KEYS, 1, tonumber(ARGV[1]))) == 0 then
    return {}
end
local parts = {}
for i = 1, #KEYS do
    local left = redis.call('PTTL', KEYS[i])
    local time = redis.call('TIME')
    local ends = 0
    if left >= 0 then
        ends = time[1] * 1000 + math.floor(time[2] / 1000) + left
        -- PTTL returns 0 in the last millisecond of a lifetime. In this reply, 0 means no lifetime.
        left = math.max(left, 1)
    end
    parts[3 * i - 2] = redis.call('DUMP', KEYS[i])
    parts[3 * i - 1] = math.max(left, 0)
    parts[3 * i] = string.format('%.0f', ends)
end
return parts
