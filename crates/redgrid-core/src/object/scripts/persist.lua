-- Removes the end of life of all keys of an object. 1: one of the keys that it exists by had an end, 0: none had.
-- ARGV: the number of keys it exists by.
local faces, done = tonumber(ARGV[1]), 0
for i = 1, #KEYS do
    local had = redis.call('PERSIST', KEYS[i])
    if i <= faces and had == 1 then
        done = 1
    end
end
return done
