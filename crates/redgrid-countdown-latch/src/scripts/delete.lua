-- delete.lua: end the round, whatever is left of it.
--
-- KEYS[2]  count    string; how many are left
-- KEYS[3]  round    string; the number of the round, `-` before that of one that is over. Redisson writes none.
-- ARGV[4]  kept     how long the number is kept when the round is over, in milliseconds
-- ARGV[5]  publish  PUBLISH or SPUBLISH
-- ARGV[6]  over     channel; the message is the number of the round that is over, or `0`
-- ARGV[7]  channel  Redisson's, where it can use one; the message is `0`. Its own delete says `1`, by which its waiters sleep on.
-- Returns  {1}  it is deleted
--          {0}  there was none
--
-- Work: O(1), deletes a key and writes one. Sent twice, it acts once.
local round = redis.call('GET', KEYS[3])
local there = redis.call('DEL', KEYS[2])
if round and string.sub(round, 1, 1) ~= '-' then
  redis.call('SET', KEYS[3], '-' .. round, 'PX', ARGV[4])
else
  round = '0'
end
if there == 1 then
  redis.pcall(ARGV[5], ARGV[6], round)
  if ARGV[7] then
    redis.pcall(ARGV[5], ARGV[7], '0')
  end
end
return answer({there})
