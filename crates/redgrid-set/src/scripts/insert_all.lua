-- insert_all.lua: inserts all values into a set that contains none of them.
--
-- KEYS[1]  set
-- ARGV     the values
-- Returns  1 they are inserted; 0 the set contains one of them, and nothing is changed
--
-- Work: O(ARGV). Not to be sent twice: the second copy would find the values of the first.
for i = 1, #ARGV do
  if redis.call('SISMEMBER', KEYS[1], ARGV[i]) == 1 then
    return 0
  end
end
for i = 1, #ARGV, 5000 do
  redis.call('SADD', KEYS[1], unpack(ARGV, i, math.min(i + 4999, #ARGV)))
end
return 1
