-- filter_add.lua: adds elements to a Bloom filter.
--
-- KEYS[1]   the configuration   hash
-- KEYS[2]   the bits            string
-- ARGV[1]   the size for which the indices were computed
-- ARGV[2]   the number of indices of each element
-- ARGV[3..] indices, element after element
-- Returns   the number of elements that were not contained
--           -1: the filter has another size, or does not exist; nothing is added
--
-- The first bits get the TTL of the configuration, so that neither key outlives the other.
--
-- Work: O(indices). Sent twice, the second copy adds nothing.
local shape = redis.call('HMGET', KEYS[1], 'size', 'hashIterations')
if shape[1] ~= ARGV[1] or shape[2] ~= ARGV[2] then
  return -1
end
local count, new = tonumber(ARGV[2]), 0
local ttl = redis.call('EXISTS', KEYS[2]) == 0 and redis.call('PTTL', KEYS[1]) or -1
for element = 3, #ARGV, count do
  local contained = 1
  for i = element, element + count - 1 do
    contained = math.min(contained, redis.call('SETBIT', KEYS[2], ARGV[i], 1))
  end
  new = new + 1 - contained
end
if ttl >= 0 then
  redis.pcall('PEXPIRE', KEYS[2], math.max(ttl, 1))
end
return new
