-- set_insert.lua: values for a set cache.
--
-- KEYS[1]  set       sorted set: each value by when it is over, in milliseconds since 1970
-- ARGV[1]  any, absent, present, sooner or later: only what is not in, is in, ends sooner or later than this
-- ARGV[2]  lifetime in milliseconds, @ and milliseconds since 1970, 0 for none
-- ARGV[3]  when what has none is over
-- ARGV[4]  all where it is all or none
-- ARGV[5…] values, 500 at most
-- Returns  {how many are new, how many have this end}
--
-- Work: O(values * log n); takes out 100 that are over. Sent twice, the second finds what the first has put.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ends = ARGV[3]
if string.sub(ARGV[2], 1, 1) == '@' then
  ends = string.sub(ARGV[2], 2)
elseif ARGV[2] ~= '0' then
  ends = now + tonumber(ARGV[2])
end
local over = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 100)
if #over > 0 then
  redis.call('ZREM', KEYS[1], unpack(over))
end
local fits, new, seen = {}, 0, {}
for i = 5, #ARGV do
  local before = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[i]) or '')
  if before and before <= now then
    before = nil
  end
  if seen[ARGV[i]] then
    -- Given twice, it is one.
  elseif ARGV[1] == 'any' or (ARGV[1] == 'absent' and not before) or (ARGV[1] == 'present' and before)
    or (ARGV[1] == 'sooner' and before and before < tonumber(ends))
    or (ARGV[1] == 'later' and before and before > tonumber(ends)) then
    seen[ARGV[i]] = true
    fits[#fits + 1] = ARGV[i]
    new = new + (before and 0 or 1)
  elseif ARGV[4] == 'all' then
    return {0, 0}
  end
end
for _, value in ipairs(fits) do
  redis.call('ZADD', KEYS[1], ends, value)
end
return {new, #fits}
