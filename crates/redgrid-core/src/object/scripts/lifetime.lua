-- lifetime.lua: returns the remaining lifetime of an object: the lifetime of its first existing
-- key.
--
-- KEYS     the object's primary keys: the object exists while one of them exists
-- Returns  milliseconds; -1: the object does not expire; -2: the object is absent
for i = 1, #KEYS do
    local left = redis.call('PTTL', KEYS[i])
    if left ~= -2 then
        return left
    end
end
return -2
