-- get_each.lua: reads the elements at some indices.
--
-- KEYS[1]  list
-- ARGV     indices, from 0
-- Returns  for each index its element, or nothing
--
-- Work: O(n) for each index, skipping whole nodes of the list; read-only. Sent twice, it reads
-- twice.
local found = {}
for i = 1, #ARGV do
  found[i] = redis.call('LINDEX', KEYS[1], ARGV[i])
end
return found
