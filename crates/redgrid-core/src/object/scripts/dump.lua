-- Each key's content, how many milliseconds it lives and when that ends since 1970 (0: it does not); nothing where the object
-- is absent. ARGV: the number of keys it exists by.
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
        -- In its last millisecond it has an end all the same.
        left = math.max(left, 1)
    end
    parts[3 * i - 2] = redis.call('DUMP', KEYS[i])
    parts[3 * i - 1] = math.max(left, 0)
    parts[3 * i] = string.format('%.0f', ends)
end
return parts
