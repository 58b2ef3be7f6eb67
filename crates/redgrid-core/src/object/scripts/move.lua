-- move.lua: renames or copies an object, in one step.
--
-- KEYS     the object's own keys, and then its additional keys (see `Object::also_renames`); then
--          the target key of each of these keys, in the same order
-- ARGV[1]  RENAME or COPY
-- ARGV[2]  1 to replace an existing target object; 0 to do nothing if the target object exists
-- ARGV[3]  the number of the object's own keys. If one of them is absent, its target key is
--          deleted. If one of the additional keys is absent, its target key is not changed
-- ARGV[4]  the number of primary keys: the object exists while one of them exists
-- Returns  1: done; 0: the target object exists; -1: the object is absent
local half, own, primary = #KEYS / 2, tonumber(ARGV[3]), tonumber(ARGV[4])
if redis.call('EXISTS', unpack(KEYS, 1, primary)) == 0 then
    return -1
end
if KEYS[1] == KEYS[half + 1] then
    return 1
end
if ARGV[2] == '0' and redis.call('EXISTS', unpack(KEYS, half + 1, half + primary)) > 0 then
    return 0
end
for i = 1, half do
    if redis.call('EXISTS', KEYS[i]) == 0 then
        if i <= own then
            redis.call('DEL', KEYS[half + i])
        end
    elseif ARGV[1] == 'RENAME' then
        redis.call('RENAME', KEYS[i], KEYS[half + i])
    else
        redis.call('COPY', KEYS[i], KEYS[half + i], 'REPLACE')
    end
end
return 1
