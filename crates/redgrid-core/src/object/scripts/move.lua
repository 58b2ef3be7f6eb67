-- Renames or copies the first half of the keys to the second, each to its own. -1: it is not there, 0: another is, 1: done.
-- ARGV: RENAME or COPY; 1 where another may be replaced; how many keys are the object's own: of those behind, the ones that are not
-- there leave what has their new name; by how many keys the object exists.
local half, own, faces = #KEYS / 2, tonumber(ARGV[3]), tonumber(ARGV[4])
if redis.call('EXISTS', unpack(KEYS, 1, faces)) == 0 then
    return -1
end
if KEYS[1] == KEYS[half + 1] then
    return 1
end
if ARGV[2] == '0' and redis.call('EXISTS', unpack(KEYS, half + 1, half + faces)) > 0 then
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
