-- persist.lua: removes the lifetime of all keys of an object.
--
-- KEYS     the keys of the object, its primary keys first
-- ARGV[1]  the number of primary keys: the object exists while one of them exists
-- Returns  1: a primary key had a lifetime; 0: no primary key had one
local primary, result = tonumber(ARGV[1]), 0
for i = 1, #KEYS do
    local had = redis.call('PERSIST', KEYS[i])
    if i <= primary and had == 1 then
        result = 1
    end
end
return result
