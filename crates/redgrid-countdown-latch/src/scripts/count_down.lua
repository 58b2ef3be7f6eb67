-- count_down.lua: take from the count, and let all go who wait when nothing is left.
--
-- KEYS[2]  count    string; how many are left. A missing key is an open latch.
-- KEYS[3]  round    string; the number of the round. Redisson writes none.
-- ARGV[4]  by       whole number, 1 or more
-- ARGV[5]  publish  PUBLISH or SPUBLISH
-- ARGV[6]  over     channel; the message is the number of the round that is over, or `0`
-- ARGV[7]  channel  Redisson's, where it can use one; the message is `0`
-- Returns  {left}   in decimal text, not below 0
--
-- Work: O(1), writes one key, or deletes two. Sent twice, it acts once.
if not redis.call('GET', KEYS[2]) then
  return answer({'0'})
end
if redis.call('DECRBY', KEYS[2], ARGV[4]) > 0 then
  -- As text: numbers of this language end at 2^53.
  return answer({redis.call('GET', KEYS[2])})
end
local round = redis.call('GET', KEYS[3]) or '0'
redis.call('DEL', KEYS[2], KEYS[3])
-- Open already: a message that may not be sent does not undo it, and waiters look by themselves.
redis.pcall(ARGV[5], ARGV[6], round)
if ARGV[7] then
  redis.pcall(ARGV[5], ARGV[7], '0')
end
return answer({'0'})
