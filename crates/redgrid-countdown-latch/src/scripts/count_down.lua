-- count_down.lua: take from the count, and let all go who wait when nothing is left.
--
-- KEYS[2]  count    string; how many are left. A missing key is an open latch.
-- KEYS[3]  round    string; the number of the round, `-` before that of one that is over. Redisson writes none.
-- ARGV[4]  by       whole number, 1 or more
-- ARGV[5]  kept     how long the number is kept when the round is over, in milliseconds
-- ARGV[6]  publish  PUBLISH or SPUBLISH
-- ARGV[7]  over     channel; the message is the number of the round that is over, or `0`
-- ARGV[8]  channel  Redisson's, where it can use one; the message is `0`
-- Returns  {before}         how many there were, in decimal text: numbers of this language end at 2^53. 0 where none were
--          {before, round}  the same where nothing is left: the number of the round that is over, or `0`
--
-- Work: O(1), writes one key, or one and deletes one. Sent twice, it acts once.
local before = redis.call('GET', KEYS[2])
if not before then
  return answer({'0'})
end
-- Read before anything is written: where it is of another type, nothing is counted.
local round = redis.call('GET', KEYS[3])
if redis.call('DECRBY', KEYS[2], ARGV[4]) > 0 then
  return answer({before})
end
local deleted = redis.pcall('DEL', KEYS[2])
if type(deleted) == 'table' then
  -- Who may not delete has not counted.
  redis.call('DECRBY', KEYS[2], '-' .. ARGV[4])
  return deleted
end
-- What is over already is not the round of this count: Redisson has begun that.
if round and string.sub(round, 1, 1) ~= '-' then
  redis.call('SET', KEYS[3], '-' .. round, 'PX', ARGV[5])
else
  round = '0'
end
-- Open already: a message that may not be sent does not undo it, and waiters look by themselves.
redis.pcall(ARGV[6], ARGV[7], round)
if ARGV[8] then
  redis.pcall(ARGV[6], ARGV[8], '0')
end
return answer({before, round})
