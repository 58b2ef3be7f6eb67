-- All keys of an object get the same end of life; the first key that exists decides whether. -1: absent, 0: not so, 1: done.
-- ARGV: the command, its time in milliseconds, what must be true of the end it has, and the number of keys it exists by.
local left = -2
for i = 1, tonumber(ARGV[4]) do
    if left == -2 then
        left = redis.call('PTTL', KEYS[i])
    end
end
if left == -2 then
    return -1
end
local condition = ARGV[3]
if condition ~= '' then
    local new = tonumber(ARGV[2])
    if ARGV[1] == 'PEXPIREAT' then
        local now = redis.call('TIME')
        new = new - (now[1] * 1000 + math.floor(now[2] / 1000))
    end
    local endless = left == -1
    local so = condition == 'none' and endless
        or condition == 'some' and not endless
        or condition == 'later' and not endless and new > left
        or condition == 'sooner' and (endless or new < left)
    if not so then
        return 0
    end
end
for i = 1, #KEYS do
    redis.call(ARGV[1], KEYS[i], ARGV[2])
end
return 1
