-- lifetime.lua: returns the lifetime of an object, that of its first key that exists.
--
-- KEYS     those by which the object exists
-- Returns  milliseconds; -1 without an end; -2 if none exists
for i = 1, #KEYS do
    local left = redis.call('PTTL', KEYS[i])
    if left ~= -2 then
        return left
    end
end
return -2
