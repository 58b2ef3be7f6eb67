-- fair_release.lua: give fair locks back, or the places in their queues, and tell the heads of these that they are next.
--
-- KEYS[4i - 3]  lock     hash; one field, the holder
-- KEYS[4i - 2]  queue    list of holders in their order, Redisson's
-- KEYS[4i - 1]  scores   sorted set, Redisson's
-- KEYS[4i]      alive    sorted set, ours
-- ARGV[1]       publish  PUBLISH or SPUBLISH
-- ARGV[4i - 2]  holder
-- ARGV[4i - 1]  keep     how long the lock stays taken by the field `<holder>:kept`, milliseconds; 0 frees it
-- ARGV[4i]      channel  where places are told, up to the holder
-- ARGV[4i + 1]  wait     what a place is worth, milliseconds
-- Returns  1 the lock was this holder's; 0 it was not (but a place may have been). Of several locks a list, with -1 for one that
--          can not be read or written
--
-- A lock that is kept loses its holder field, so that a late renewal changes nothing.
--
-- Work: O(1) each, O(n) for n places where one leaves the queue. Sent twice, it answers 0 the second time; with `keep` it
-- answers 1 and changes nothing.
local publish = ARGV[1]
local function give_back(k, holder, keep, channel, wait)
  local held, kept = nil, holder .. ':kept'
  if keep == '0' then
    held = redis.call('HDEL', k[1], holder)
  elseif redis.call('HEXISTS', k[1], kept) == 1 then
    return 1
  else
    held = redis.call('HEXISTS', k[1], holder)
  end
  if held == 1 and keep ~= '0' then
    -- In this order: a full server refuses HSET as the first write, and a hash without fields loses its lifetime.
    redis.call('PEXPIRE', k[1], keep)
    redis.call('HSET', k[1], kept, '1')
    redis.call('HDEL', k[1], holder)
  end
  forgive(k, 0)
  local is_place = held == 0 and redis.call('ZSCORE', k[3], holder)
  if is_place then
    pass(k, wait, {holder})
  elseif is_untidy(k) then
    pass(k, wait, {})
  end
  -- Told a longer time, the head is to look again where the lock stays taken for a while.
  if (held == 1 or is_place) and (keep ~= '0' or redis.call('EXISTS', k[1]) == 0) then
    tell_head(k, publish, channel)
  end
  return held
end
-- Where there is one, it fails as a whole and says why.
local single = #KEYS == 4
local out = {}
for i = 1, #KEYS / 4 do
  local k = {KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], KEYS[4 * i]}
  local one = function()
    return give_back(k, ARGV[4 * i - 2], ARGV[4 * i - 1], ARGV[4 * i], tonumber(ARGV[4 * i + 1]))
  end
  if single then
    out[i] = one()
  else
    local done, held = pcall(one)
    out[i] = done and held or -1
  end
end
return single and out[1] or out
