-- set_insert.lua: inserts values into a set cache, or changes their lifetimes.
--
-- KEYS[1]  set       sorted set: values, scored by expiry in milliseconds since 1970
-- ARGV[1]  the condition for each value: any; absent; present; sooner or later: present and with an
--          expiry before or after the new one
-- ARGV[2]  lifetime in milliseconds, @ and milliseconds since 1970, 0 for none
-- ARGV[3]  the expiry of values without a lifetime
-- ARGV[4]  all: change nothing unless the condition holds for all values
-- ARGV[5…] values, 500 at most
-- Returns  {number of new values, number of values that have the new expiry}
--
-- Work: O(values * log n); removes up to 100 expired values. Sent twice, the second transmission
-- finds the values of the first.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local new_expiry = ARGV[3]
if string.sub(ARGV[2], 1, 1) == '@' then
  new_expiry = string.sub(ARGV[2], 2)
elseif ARGV[2] ~= '0' then
  new_expiry = now + tonumber(ARGV[2])
end
local expired = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 100)
if #expired > 0 then
  redis.call('ZREM', KEYS[1], unpack(expired))
end
local matching, new, seen = {}, 0, {}
for i = 5, #ARGV do
  local expiry = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[i]) or '')
  if expiry and expiry <= now then
    expiry = nil
  end
  if seen[ARGV[i]] then
    -- A value that is given twice counts once.
  elseif ARGV[1] == 'any' or (ARGV[1] == 'absent' and not expiry) or (ARGV[1] == 'present' and expiry)
    or (ARGV[1] == 'sooner' and expiry and expiry < tonumber(new_expiry))
    or (ARGV[1] == 'later' and expiry and expiry > tonumber(new_expiry)) then
    seen[ARGV[i]] = true
    matching[#matching + 1] = ARGV[i]
    new = new + (expiry and 0 or 1)
  elseif ARGV[4] == 'all' then
    return {0, 0}
  end
end
for _, value in ipairs(matching) do
  redis.call('ZADD', KEYS[1], new_expiry, value)
end
return {new, #matching}
