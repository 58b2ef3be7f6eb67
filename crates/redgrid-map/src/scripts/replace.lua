-- replace.lua: another value for a key that has one, and what it had.
--
-- KEYS[1]  map
-- ARGV[1]  key
-- ARGV[2]  value
-- Returns  what it had; nothing, and nothing is done, where it had none
--
-- Work: O(1) and the sizes. Not to be sent twice, as insert.
local was = redis.call('HGET', KEYS[1], ARGV[1])
if was then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
return was
