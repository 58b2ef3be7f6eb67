-- day.lua: takes numbers of a day.
--
-- KEYS[1]  counter     string; the last number of the day that any client has taken; 0 if it does
--                      not exist
-- ARGV[1]  from        the first second of the day, since 1970
-- ARGV[2]  to          the first second after the day
-- ARGV[3]  not before  the minimum second of the numbers: the last one that the client has seen
-- ARGV[4]  ahead       by how many seconds the numbers are ahead of this server's clock and of
--                      `not before`
-- ARGV[5]  above       the last number of the day that the client has seen: the numbers are larger
-- ARGV[6]  wanted      the number of wanted numbers
-- ARGV[7]  kept until  when the counter expires, in milliseconds since 1970: long after its day
-- ARGV[8]  max ahead   the maximum number of seconds by which `ahead` may bring the numbers ahead
--                      of this server's clock
-- Returns  {'numbers', second, first, count}  in decimal; fewer than wanted if the day has fewer
--                                             left
--          {'elsewhere', second}              the second is not in this day; nothing is changed
--          {'exhausted', second}              the day has no numbers left; nothing is changed
--          {'strange', value}                 the value is not a valid number; nothing is changed
--
-- Work: O(1), writes one key, which has a lifetime from its first write on. Sent twice, it takes
-- numbers twice: numbers with a lost reply are not issued.
local time = redis.call('TIME')
local now, not_before = tonumber(time[1]), tonumber(ARGV[3])
local second = math.max(not_before, math.min(math.max(now, not_before) + ARGV[4], now + ARGV[8]))
local text = string.format('%.0f', second)
if second < tonumber(ARGV[1]) or second >= tonumber(ARGV[2]) then
  return {'elsewhere', text}
end
local stored = redis.call('GET', KEYS[1])
if stored and stored ~= '0' and not string.match(stored, '^[1-9]%d*$') then
  return {'strange', string.sub(stored, 1, 64)}
end
local last = math.max(tonumber(stored or '0'), tonumber(ARGV[5]))
local count = math.min(tonumber(ARGV[6]), 4294967295 - last)
if count < 1 then
  return {'exhausted', text}
end
if stored then
  -- Another program may have created the counter without this lifetime. If it expired too early, it
  -- would restart within its day.
  local lifetime = tonumber(ARGV[7]) - now * 1000
  if redis.call('PTTL', KEYS[1]) < lifetime - 60000 then
    redis.call('PEXPIREAT', KEYS[1], ARGV[7])
  end
  redis.call('INCRBY', KEYS[1], string.format('%.0f', last - tonumber(stored) + count))
else
  redis.call('SET', KEYS[1], string.format('%.0f', last + count), 'PXAT', ARGV[7])
end
return {'numbers', text, string.format('%.0f', last + 1), string.format('%.0f', count)}
