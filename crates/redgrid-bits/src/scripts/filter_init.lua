-- filter_init.lua: makes a Bloom filter, if there is none.
--
-- KEYS[1]  what it is   hash
-- ARGV[1]  size: how many bits it has
-- ARGV[2]  hashIterations: how many bits each element sets
-- ARGV[3]  expectedInsertions
-- ARGV[4]  falseProbability
-- Returns  1: it is made, 0: there is one
--
-- Work: O(1). Sent twice, it does nothing the second time.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
redis.call('HSET', KEYS[1], 'size', ARGV[1], 'hashIterations', ARGV[2], 'expectedInsertions', ARGV[3], 'falseProbability', ARGV[4])
return 1
