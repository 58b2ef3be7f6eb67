-- retain.lua, with retained.lua behind it: no values in a set but some.
--
-- KEYS[1]  set
-- ARGV     the values that stay, if they are in
-- Returns  how many are removed
--
-- Work: O(ARGV); the memory is freed in the background. Sent twice, the second removes nothing, but what others have inserted meanwhile.
local count, insert, width = 'SCARD', 'SADD', 1
local stay, seen = {}, {}
for i = 1, #ARGV do
  if not seen[ARGV[i]] and redis.call('SISMEMBER', KEYS[1], ARGV[i]) == 1 then
    seen[ARGV[i]] = true
    stay[#stay + 1] = ARGV[i]
  end
end
