-- filter_init.lua: creates a Bloom filter, if there is none.
--
-- KEYS[1]  the configuration   hash
-- ARGV[1]  size: the number of bits
-- ARGV[2]  hashIterations: the number of bits of each element
-- ARGV[3]  expectedInsertions
-- ARGV[4]  falseProbability
-- Returns  1: the filter is created, 0: it already exists
--
-- Work: O(1). Sent twice, the second copy does nothing.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
redis.call('HSET', KEYS[1], 'size', ARGV[1], 'hashIterations', ARGV[2], 'expectedInsertions', ARGV[3], 'falseProbability', ARGV[4])
return 1
