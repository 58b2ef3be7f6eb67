-- fair_enter.lua: take a fair lock for one holder if it is free and nobody is before, or get a place in its queue.
--
-- KEYS[1]  lock       hash; one field, the holder; absent when free
-- KEYS[2]  queue      list of holders in their order, Redisson's
-- KEYS[3]  scores     sorted set, Redisson's: until when a place is kept, in milliseconds
-- KEYS[4]  alive      sorted set, ours: until when its process keeps a place
-- ARGV[1]  holder     new for each grant
-- ARGV[2]  lease      milliseconds
-- ARGV[3]  not after  microseconds since 1970 by this server's clock; later than that, nothing is done
-- ARGV[4]  wait       what a place is worth, milliseconds
-- ARGV[5]  kept       how long a place is kept without another word, milliseconds; 0: one look, no place
-- ARGV[6]  publish    PUBLISH or SPUBLISH
-- ARGV[7]  channel    where places are told, up to the holder
-- Returns  {1, time, 0}      granted at `time` (microseconds since 1970, as text): the fencing token
--          {0, time, left}   others are first; `left` is the present holder's PTTL for the head of the queue, -1 for others
--          {2, time, 0}      too late
--
-- Work: O(1), and O(n) for n places that are few, or not all ours. Sent twice, it takes once, or has one place.
if tonumber(time) > tonumber(ARGV[3]) then
  return {2, time, 0}
end
local k, holder, wait, kept = KEYS, ARGV[1], tonumber(ARGV[4]), tonumber(ARGV[5])
if redis.call('HEXISTS', k[1], holder) == 1 then
  if redis.call('PTTL', k[1]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', k[1], ARGV[2])
  end
  return {1, time, 0}
end
forgive(k, kept)
-- Not by its own word, however late that is.
local is_new = not redis.call('ZSCORE', k[3], holder)
if kept > 0 and not is_new then
  redis.call('ZADD', k[4], now + kept, holder)
end
local untidy = is_untidy(k)
if untidy then
  pass(k, wait, {})
end
local head = redis.call('LINDEX', k[2], 0)
local left = redis.call('PTTL', k[1])
if untidy and left == -2 and head ~= holder then
  -- The release told somebody who is out now.
  tell_head(k, ARGV[6], ARGV[7])
end
if left == -2 and (not head or head == holder) then
  redis.call('HSET', k[1], holder, '1')
  local bounded = redis.pcall('PEXPIRE', k[1], ARGV[2])
  if type(bounded) == 'table' then
    -- No lock without a lifetime: a user who may not set one may not lock.
    redis.call('HDEL', k[1], holder)
    return bounded
  end
  if head then
    pass(k, wait, {holder})
  end
  return {1, time, 0}
end
if kept > 0 and is_new then
  local last = redis.call('LINDEX', k[2], -1)
  local base = last and redis.call('ZSCORE', k[3], last) or now + math.max(left, 0)
  local places = redis.call('RPUSH', k[2], holder)
  redis.call('ZADD', k[4], now + kept, holder)
  if is_ours(k) then
    redis.call('ZADD', k[3], now + wait * places, holder)
    set_lifetimes(k, wait)
  else
    redis.call('ZADD', k[3], base + wait, holder)
    pass(k, wait, {})
  end
  head = head or holder
end
if head ~= holder or left < 0 then
  return {0, time, -1}
end
return {0, time, math.max(left, 1)}
