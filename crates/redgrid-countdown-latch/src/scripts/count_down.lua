-- count_down.lua: decrements the count; at 0, ends the round and notifies the waiters.
--
-- KEYS[2]  count    string; the remaining count. If the key is missing, the latch is open.
-- KEYS[3]  round    string; its number, with `-` in front once the round is over.
--                   Redisson writes none.
-- ARGV[4]  by       whole number, 1 or more
-- ARGV[5]  kept     lifetime of the number after the round's end, in milliseconds
-- ARGV[6]  publish  PUBLISH or SPUBLISH
-- ARGV[7]  over     channel; the message is the number of the ended round, or `0`
-- ARGV[8]  channel  Redisson's, if it can use the name; the message is `0`
-- Returns  {before}         the count before, as decimal text because Lua numbers are exact only up
--                           to 2^53; 0 if there was no round
--          {before, round}  if the round has ended: also its number, or `0` if it has none
--
-- Work: O(1), writes one key, or writes one and deletes one. Sent twice, it acts once.
local before = redis.call('GET', KEYS[2])
if not before then
  return answer({'0'})
end
-- The number is read before any write: if its key has another type, the script fails before it
-- counts.
local round = redis.call('GET', KEYS[3])
if redis.call('DECRBY', KEYS[2], ARGV[4]) > 0 then
  return answer({before})
end
local deleted = redis.pcall('DEL', KEYS[2])
if type(deleted) == 'table' then
  -- Without permission to delete, the count-down is undone.
  redis.call('DECRBY', KEYS[2], '-' .. ARGV[4])
  return deleted
end
-- A number with `-` is that of an earlier round: Redisson has begun this one.
if round and string.sub(round, 1, 1) ~= '-' then
  redis.call('SET', KEYS[3], '-' .. round, 'PX', ARGV[5])
else
  round = '0'
end
-- The latch is open. A failed PUBLISH does not undo that; waiters poll.
redis.pcall(ARGV[6], ARGV[7], round)
if ARGV[8] then
  redis.pcall(ARGV[6], ARGV[8], '0')
end
return answer({before, round})
