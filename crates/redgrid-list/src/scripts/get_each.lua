-- get_each.lua: what is at some indices.
--
-- KEYS[1]  list
-- ARGV     indices, from 0
-- Returns  of each what is there, or nothing
--
-- Work: O(n) for each, a node of the list at a time; only reads. Sent twice, it looks twice.
local found = {}
for i = 1, #ARGV do
  found[i] = redis.call('LINDEX', KEYS[1], ARGV[i])
end
return found
