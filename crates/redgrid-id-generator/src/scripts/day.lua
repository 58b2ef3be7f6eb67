-- day.lua: take numbers of a day.
--
-- KEYS[1]  counter     string; the last number of the day that was taken, by whomever; absent is 0
-- ARGV[1]  from        the first second of the day, since 1970
-- ARGV[2]  to          the second behind its last
-- ARGV[3]  not before  the second that the numbers are of at the earliest: the last one that the client has seen
-- ARGV[4]  ahead       how many seconds ahead of both they are: of this server's clock, and of `not before`
-- ARGV[5]  above       they are above this one: the last one of the day that the client has seen
-- ARGV[6]  wanted      how many
-- ARGV[7]  kept until  when the counter ends, in milliseconds since 1970: long after its day
-- ARGV[8]  farthest    `ahead` brings them no more seconds ahead of this server's clock than so many
-- Returns  {'numbers', second, first, count}  in decimal text; fewer than wanted where the day has not so many left
--          {'elsewhere', second}              the second is not in this day; nothing is changed
--          {'exhausted', second}              the day has no number left; nothing is changed
--          {'strange', what}                  what is under the key is no such number; nothing is changed
--
-- Work: O(1), writes one key, which has a lifetime from its first write on. Sent twice, it takes twice: numbers that nobody is told of
-- are not given.
local time = redis.call('TIME')
local now, before = tonumber(time[1]), tonumber(ARGV[3])
local second = math.max(before, math.min(math.max(now, before) + ARGV[4], now + ARGV[8]))
local text = string.format('%.0f', second)
if second < tonumber(ARGV[1]) or second >= tonumber(ARGV[2]) then
  return {'elsewhere', text}
end
local there = redis.call('GET', KEYS[1])
if there and there ~= '0' and not string.match(there, '^[1-9]%d*$') then
  return {'strange', string.sub(there, 1, 64)}
end
local last = math.max(tonumber(there or '0'), tonumber(ARGV[5]))
local count = math.min(tonumber(ARGV[6]), 4294967295 - last)
if count < 1 then
  return {'exhausted', text}
end
if there then
  -- Somebody else may have made it. One that ends too early would begin anew within its day.
  local left = tonumber(ARGV[7]) - now * 1000
  if redis.call('PTTL', KEYS[1]) < left - 60000 then
    redis.call('PEXPIREAT', KEYS[1], ARGV[7])
  end
  redis.call('INCRBY', KEYS[1], string.format('%.0f', last - tonumber(there) + count))
else
  redis.call('SET', KEYS[1], string.format('%.0f', last + count), 'PXAT', ARGV[7])
end
return {'numbers', text, string.format('%.0f', last + 1), string.format('%.0f', count)}
