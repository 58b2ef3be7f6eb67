-- fair_acquire.lua: acquire a fair lock if it is free and no other position is first, or enqueue.
--
-- KEYS[1]  lock       hash; one field, the holder; absent when free
-- KEYS[2]  queue      list of holders in their order, Redisson's
-- KEYS[3]  scores     sorted set, Redisson's: when a position times out, milliseconds
-- KEYS[4]  alive      sorted set, redgrid's: when each of its positions expires, milliseconds
-- ARGV[1]  holder     new for each grant
-- ARGV[2]  lease      milliseconds
-- ARGV[3]  not after  microseconds since 1970 by this server's clock; after it, nothing is done
-- ARGV[4]  wait       milliseconds that each position adds to the score
-- ARGV[5]  ttl        how long the position is kept without a further request, milliseconds; 0 only
--                     tries, without a position
-- ARGV[6]  publish    PUBLISH or SPUBLISH
-- ARGV[7]  channel    prefix of the channel of a position; `:` and the holder follow
-- Returns  {1, time, 0}     granted at `time` (microseconds since 1970, as text): the fencing token
--          {0, time, left}  others are first; `left` is the current holder's PTTL for the head of
--                           the queue, -1 for other positions
--          {2, time, 0}     too late
--
-- Work: O(1), and O(n) for n positions of a short queue, or one with Redisson's positions.
-- Sent twice, it acquires once, or has one position.
if tonumber(time) > tonumber(ARGV[3]) then
  return {2, time, 0}
end
local k, holder, wait, ttl = KEYS, ARGV[1], tonumber(ARGV[4]), tonumber(ARGV[5])
if redis.call('HEXISTS', k[1], holder) == 1 then
  if redis.call('PTTL', k[1]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', k[1], ARGV[2])
  end
  return {1, time, 0}
end
grant_grace(k, ttl)
-- The position is extended first, so that no request removes its own position, however late it is.
local is_new = not redis.call('ZSCORE', k[3], holder)
if ttl > 0 and not is_new then
  redis.call('ZADD', k[4], now + ttl, holder)
end
local cleanup = needs_cleanup(k)
if cleanup then
  update_queue(k, wait, {})
end
local head = redis.call('LINDEX', k[2], 0)
local left = redis.call('PTTL', k[1])
if cleanup and left == -2 and head ~= holder then
  -- The release notified a position that was just removed.
  notify_head(k, ARGV[6], ARGV[7])
end
if left == -2 and (not head or head == holder) then
  redis.call('HSET', k[1], holder, '1')
  local expire_reply = redis.pcall('PEXPIRE', k[1], ARGV[2])
  if type(expire_reply) == 'table' then
    -- A lock needs a lifetime: a user without `+pexpire` cannot acquire it.
    redis.call('HDEL', k[1], holder)
    return expire_reply
  end
  if head then
    update_queue(k, wait, {holder})
  end
  return {1, time, 0}
end
if ttl > 0 and is_new then
  local last = redis.call('LINDEX', k[2], -1)
  local base = last and redis.call('ZSCORE', k[3], last) or now + math.max(left, 0)
  local length = redis.call('RPUSH', k[2], holder)
  redis.call('ZADD', k[4], now + ttl, holder)
  if has_only_own(k) then
    redis.call('ZADD', k[3], now + wait * length, holder)
    set_lifetimes(k, wait)
  else
    redis.call('ZADD', k[3], base + wait, holder)
    update_queue(k, wait, {})
  end
  head = head or holder
end
if head ~= holder or left < 0 then
  return {0, time, -1}
end
return {0, time, math.max(left, 1)}
