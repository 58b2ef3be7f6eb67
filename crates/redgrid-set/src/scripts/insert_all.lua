-- insert_all.lua: values for a set, all of them, if it has none of them.
--
-- KEYS[1]  set
-- ARGV     the values
-- Returns  1 they are in now, 0 one of them was: nothing is done
--
-- Work: O(ARGV). Not to be sent twice: the second would find the first's.
for i = 1, #ARGV do
  if redis.call('SISMEMBER', KEYS[1], ARGV[i]) == 1 then
    return 0
  end
end
for i = 1, #ARGV, 5000 do
  redis.call('SADD', KEYS[1], unpack(ARGV, i, math.min(i + 4999, #ARGV)))
end
return 1
