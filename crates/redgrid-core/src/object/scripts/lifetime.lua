-- lifetime.lua: returns the lifetime of an object, that of its first key that exists.
--
-- KEYS     the object's primary keys: it exists while one of them does
-- Returns  milliseconds; -1 without an end; -2 if none exists
for i = 1, #KEYS do
    local left = redis.call('PTTL', KEYS[i])
    if left ~= -2 then
        return left
    end
end
return -2
