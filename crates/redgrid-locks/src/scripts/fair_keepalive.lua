-- fair_keepalive.lua: keep the queue positions of one process alive, remove expired ones, find the
-- head.
--
-- KEYS[1]  lock       hash; one field, the holder; absent when free
-- KEYS[2]  queue      list of holders in their order, Redisson's
-- KEYS[3]  scores     sorted set, Redisson's
-- KEYS[4]  alive      sorted set, redgrid's: when each of its positions expires, milliseconds
-- ARGV[1]  wait       milliseconds that each position adds to the score
-- ARGV[2]  ttl        how long the positions are kept without a further request, milliseconds
-- ARGV[3]  all        1: check the scores of all redgrid positions, too
-- ARGV[4]  publish    PUBLISH or SPUBLISH
-- ARGV[5]  channel    prefix of the channel of a position; `:` and the holder follow
-- ARGV[6…] holders    the positions
-- Returns  {time, left, first, kept, kept, …}
--          `left` is the lock's PTTL, -2 when free; `first` is the number of the position that is
--          the head, 0 for none; `kept` is 1 for each position, or 0 if it is not in the queue
--
-- Work: O(positions of the process), and O(n) for n positions of the queue if one is removed or
-- with `all`. Sent twice, it keeps twice; it never creates a position.
local k, wait, ends = KEYS, tonumber(ARGV[1]), now + tonumber(ARGV[2])
local out = {}
-- A full server (maxmemory) refuses a write that needs memory only as the first write of a script.
-- ZREM needs none, so it comes first.
redis.call('ZREM', k[4], '')
grant_grace(k, tonumber(ARGV[2]))
for i = 6, #ARGV do
  local is_queued = redis.call('ZSCORE', k[3], ARGV[i])
  if is_queued then
    redis.call('ZADD', k[4], ends, ARGV[i])
  end
  out[i - 5] = is_queued and 1 or 0
end
if ARGV[3] == '1' or needs_cleanup(k) then
  update_queue(k, wait, {}, ARGV[3] == '1')
elseif redis.call('PTTL', k[2]) > 0 and not has_only_own(k) then
  -- A position of Redisson was added, which neither sets nor removes the lifetime of the queue.
  set_lifetimes(k, wait)
end
local head, left = redis.call('LINDEX', k[2], 0), redis.call('PTTL', k[1])
local first = 0
for i = 6, #ARGV do
  if ARGV[i] == head then
    first = i - 5
  end
end
if left == -2 and first == 0 then
  -- Usually a release has notified the head already. It has not if another position was the head
  -- then, or if the message was lost.
  notify_head(k, ARGV[4], ARGV[5])
end
return {time, left, first, unpack(out)}
