-- set.lua: set the rate of a limiter. Appended to dedup.lua.
--
-- KEYS[2…7]          as in log.lua
-- ARGV[4]  rate, [5] interval, [6] type, [7] keepAliveTime   as in the hash
-- ARGV[8]  mode      `try`: if none is set; `update`: if one is set; `set`: in any case
-- ARGV[9]  keeps     `1`: taken permits still count, as far as the new interval reaches back
-- ARGV[10] publish   PUBLISH or SPUBLISH
-- ARGV[11] channel   where waiting clients are notified
-- Returns  {done}    `1` if the rate was set, otherwise `0`
--
-- Work: O(1); memory is freed in the background. Sent twice, it acts once.
local was = redis.call('HMGET', KEYS[2], 'rate', 'interval', 'type', 'keepAliveTime')
local is_set = was[1] and was[2] and was[3]
if (ARGV[8] == 'try' and is_set) or (ARGV[8] == 'update' and redis.call('EXISTS', KEYS[2]) == 0) then
  return answer({'0'})
end
local own = ARGV[6] == '1'
local value, permits = KEYS[own and 4 or 3], KEYS[own and 6 or 5]
local keeps = ARGV[9] == '1' and is_set and was[3] == ARGV[6]
local former = keeps and redis.call('GET', value)
if former and not tonumber(former) then
  return redis.error_reply('ERR the value of the limiter is no number')
end
redis.call('HSET', KEYS[2], 'rate', ARGV[4], 'interval', ARGV[5], 'type', ARGV[6], 'keepAliveTime', ARGV[7])
local reply
if not keeps and is_set and was[3] ~= ARGV[6] then
  reply = redis.pcall('UNLINK', KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7])
elseif not keeps then
  reply = redis.pcall('UNLINK', value, permits)
elseif former and not own then
  -- The value is the rate minus the taken permits, so it changes with the rate. A client's own
  -- value changes with its next request.
  reply = redis.pcall('INCRBY', value, string.format('%.0f', tonumber(ARGV[4]) - tonumber(was[1])))
end
if type(reply) == 'table' and reply.err then
  for n, field in ipairs({'rate', 'interval', 'type', 'keepAliveTime'}) do
    if was[n] then
      redis.call('HSET', KEYS[2], field, was[n])
    else
      redis.call('HDEL', KEYS[2], field)
    end
  end
  return reply
end
if ARGV[7] ~= '0' then
  for _, key in ipairs({KEYS[2], value, permits, KEYS[7]}) do
    redis.call('PEXPIRE', key, ARGV[7])
  end
elseif tonumber(was[4] or '0') > 0 then
  -- The keys had the TTL of keepAliveTime. From now on they have none, except those of one client.
  redis.call('PERSIST', KEYS[2])
  if not own then
    redis.call('PERSIST', value)
    redis.call('PERSIST', permits)
  end
end
redis.pcall(ARGV[10], ARGV[11], '0')
return answer({'1'})
