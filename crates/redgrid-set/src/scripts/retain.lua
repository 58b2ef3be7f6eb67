-- retain.lua, followed by retained.lua: removes all values of a set except some.
--
-- KEYS[1]  set
-- ARGV     the values to retain, if the set contains them
-- Returns  the number of removed values
--
-- Work: O(ARGV); the memory is freed in the background. Sent twice, the second copy removes only
-- values that others have inserted in between.
local count, insert, width = 'SCARD', 'SADD', 1
local retained, seen = {}, {}
for i = 1, #ARGV do
  if not seen[ARGV[i]] and redis.call('SISMEMBER', KEYS[1], ARGV[i]) == 1 then
    seen[ARGV[i]] = true
    retained[#retained + 1] = ARGV[i]
  end
end
