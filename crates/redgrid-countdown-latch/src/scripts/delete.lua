-- delete.lua: ends the round, whatever its count.
--
-- KEYS[2]  count    string; the remaining count
-- KEYS[3]  round    string; its number, with `-` in front once the round is over.
--                   Redisson writes none.
-- ARGV[4]  kept     lifetime of the number after the round's end, in milliseconds
-- ARGV[5]  publish  PUBLISH or SPUBLISH
-- ARGV[6]  over     channel; the message is the number of the ended round, or `0`
-- ARGV[7]  channel  Redisson's, if it can use the name; the message is `0`. Redisson's own delete
--                   sends `1`, after which its waiters keep waiting.
-- Returns  {1}  deleted
--          {0}  there was no round
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
