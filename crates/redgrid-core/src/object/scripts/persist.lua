-- All keys of an object live on; whether the first had an end.
local done = redis.call('PERSIST', KEYS[1])
for i = 2, #KEYS do
    redis.call('PERSIST', KEYS[i])
end
return done
