-- filter_add.lua: adds elements to a Bloom filter.
--
-- KEYS[1]   what it is   hash
-- KEYS[2]   its bits     string
-- ARGV[1]   the size by which the indices are chosen
-- ARGV[2]   how many indices each element has
-- ARGV[3..] indices, one element behind the other
-- Returns   how many were not in it
--           -1: it is of another size, or there is none; nothing is added
--
-- The first bits get the end of life that the configuration has: neither key outlives the other.
--
-- Work: O(indices). Sent twice, it adds nothing the second time.
local shape = redis.call('HMGET', KEYS[1], 'size', 'hashIterations')
if shape[1] ~= ARGV[1] or shape[2] ~= ARGV[2] then
  return -1
end
local each, new = tonumber(ARGV[2]), 0
local left = redis.call('EXISTS', KEYS[2]) == 0 and redis.call('PTTL', KEYS[1]) or -1
for element = 3, #ARGV, each do
  local had = 1
  for i = element, element + each - 1 do
    had = math.min(had, redis.call('SETBIT', KEYS[2], ARGV[i], 1))
  end
  new = new + 1 - had
end
if left >= 0 then
  redis.pcall('PEXPIRE', KEYS[2], math.max(left, 1))
end
return new
