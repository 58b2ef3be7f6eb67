-- Deletes an object if it is what it was, and says for a while what it has become. 0: it is not, 1: done.
-- KEYS: those of the object; then the receipt, where one is to be written.
-- ARGV: how many keys the object has; what is written on the receipt and for how many milliseconds; then of each key the SHA-1 of its
-- content, nothing where there was none, and when its life ends in milliseconds since 1970 (0: never, -1: whenever).
local count = tonumber(ARGV[1])
local function as_it_was(i)
    local sha, ends = ARGV[2 + 2 * i], tonumber(ARGV[3 + 2 * i])
    local left = redis.call('PTTL', KEYS[i])
    local time = redis.call('TIME')
    local content = redis.call('DUMP', KEYS[i])
    if not content then
        return sha == ''
    end
    local now = left >= 0 and time[1] * 1000 + math.floor(time[2] / 1000) + left or 0
    -- Two questions of one script are some time apart.
    local same = ends == -1 or now == ends or (now > 0 and ends > 0 and math.abs(now - ends) <= 100)
    return same and redis.sha1hex(content) == sha
end
for i = 1, count do
    if not as_it_was(i) then
        return 0
    end
end
if #KEYS > count then
    redis.call('SET', KEYS[#KEYS], ARGV[2], 'PX', ARGV[3])
end
redis.call('DEL', unpack(KEYS, 1, count))
return 1
