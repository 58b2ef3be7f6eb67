-- How many milliseconds an object lives, by the first of its keys that exists: -1 without an end, -2 where none exists.
for i = 1, #KEYS do
    local left = redis.call('PTTL', KEYS[i])
    if left ~= -2 then
        return left
    end
end
return -2
