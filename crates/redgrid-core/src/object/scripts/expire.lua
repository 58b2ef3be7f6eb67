-- expire.lua: sets the lifetime of all keys of an object, if the object's current lifetime meets a
-- condition.
--
-- KEYS     the keys of the object, its primary keys first; the lifetime of the first existing
--          primary key is the current lifetime of the object
-- ARGV[1]  PEXPIRE or PEXPIREAT
-- ARGV[2]  the time argument of that command, in milliseconds
-- ARGV[3]  the condition: "none" (there is no lifetime), "some" (there is one), "later" or "sooner"
--          (the new lifetime ends later or sooner than the current one), or empty (always met)
-- ARGV[4]  the number of primary keys: the object exists while one of them exists
-- Returns  1: set; 0: the condition is not met; -1: the object is absent
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
    local is_met = condition == 'none' and endless
        or condition == 'some' and not endless
        or condition == 'later' and not endless and new > left
        or condition == 'sooner' and (endless or new < left)
    if not is_met then
        return 0
    end
end
for i = 1, #KEYS do
    redis.call(ARGV[1], KEYS[i], ARGV[2])
end
return 1
