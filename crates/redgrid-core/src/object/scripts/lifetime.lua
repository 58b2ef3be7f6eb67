-- lifetime.lua: returns the lifetime of an object, which is that of its first existing key.
--
-- KEYS     the object's primary keys: it exists while one of them exists
-- Returns  milliseconds; -1: it does not end; -2: the object is absent
for i = 1, #KEYS do
    local left = redis.call('PTTL', KEYS[i])
    if left ~= -2 then
        return left
    end
end
return -2
