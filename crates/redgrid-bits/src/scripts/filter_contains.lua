-- filter_contains.lua: checks which elements a Bloom filter may contain.
--
-- KEYS[1]   the configuration   hash
-- KEYS[2]   the bits            string
-- ARGV[1]   the size for which the indices were computed
-- ARGV[2]   the number of indices of each element
-- ARGV[3..] indices, element after element
-- Returns   for each element `1` if the filter may contain it, otherwise `0`; as one string
--           an empty string: the filter has another size, or does not exist
--
-- Work: O(indices). Read-only.
local shape = redis.call('HMGET', KEYS[1], 'size', 'hashIterations')
if shape[1] ~= ARGV[1] or shape[2] ~= ARGV[2] then
  return ''
end
local count, found = tonumber(ARGV[2]), {}
for element = 3, #ARGV, count do
  local contained = '1'
  for i = element, element + count - 1 do
    if redis.call('GETBIT', KEYS[2], ARGV[i]) == 0 then
      contained = '0'
      break
    end
  end
  found[#found + 1] = contained
end
return table.concat(found)
