-- filter_contains.lua: which elements may be in a Bloom filter.
--
-- KEYS[1]   what it is   hash
-- KEYS[2]   its bits     string
-- ARGV[1]   the size by which the indices are chosen
-- ARGV[2]   how many indices each element has
-- ARGV[3..] indices, one element behind the other
-- Returns   for each element `1`, it may be in it, or `0`, it is not; as one string
--           an empty string: it is of another size, or there is none
--
-- Work: O(indices). Only reads.
local shape = redis.call('HMGET', KEYS[1], 'size', 'hashIterations')
if shape[1] ~= ARGV[1] or shape[2] ~= ARGV[2] then
  return ''
end
local each, found = tonumber(ARGV[2]), {}
for element = 3, #ARGV, each do
  local has = '1'
  for i = element, element + each - 1 do
    if redis.call('GETBIT', KEYS[2], ARGV[i]) == 0 then
      has = '0'
      break
    end
  end
  found[#found + 1] = has
end
return table.concat(found)
