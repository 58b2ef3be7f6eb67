-- delete.lua: end the round, whatever is left of it.
--
-- KEYS[2]  count    string; how many are left
-- KEYS[3]  round    string; the number of the round. Redisson writes none.
-- ARGV[4]  publish  PUBLISH or SPUBLISH
-- ARGV[5]  over     channel; the message is the number of the round that is over, or `0`
-- ARGV[6]  channel  Redisson's, where it can use one; the message is `0`. Its own delete says `1`, by which its waiters sleep on.
-- Returns  {1}  it is deleted
--          {0}  there was none
--
-- Work: O(1), deletes two keys. Sent twice, it acts once.
local round = redis.call('GET', KEYS[3]) or '0'
local there = redis.call('DEL', KEYS[2])
redis.call('DEL', KEYS[3])
if there == 1 then
  redis.pcall(ARGV[4], ARGV[5], round)
  if ARGV[6] then
    redis.pcall(ARGV[4], ARGV[6], '0')
  end
end
return answer({there})
