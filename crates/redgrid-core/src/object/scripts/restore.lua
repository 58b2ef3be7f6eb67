-- Makes the keys from what was dumped. 0: another is there, 1: done.
-- ARGV: 1 where another may be replaced; then of each key 1 where it has content, the content, its lifetime in milliseconds (0: none).
if ARGV[1] == '0' and redis.call('EXISTS', KEYS[1]) == 1 then
    return 0
end
for i = 1, #KEYS do
    if ARGV[3 * i - 1] == '1' then
        redis.call('RESTORE', KEYS[i], ARGV[3 * i + 1], ARGV[3 * i], 'REPLACE')
    else
        redis.call('DEL', KEYS[i])
    end
end
return 1
