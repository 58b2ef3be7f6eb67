-- fair_pass.lua: keep a fair lock in one process for its next positions. Positions that the process
-- has served leave the queue, and its new waiters are enqueued.
--
-- KEYS[1]  lock       hash; one field, the holder; absent when free
-- KEYS[2]  queue      list of holders in their order, Redisson's
-- KEYS[3]  scores     sorted set, Redisson's
-- KEYS[4]  alive      sorted set, redgrid's: when each of its positions expires, milliseconds
-- ARGV[1]  holder     `<client id>:<number>`, as are the positions of its process
-- ARGV[2]  not after  microseconds since 1970 by this server's clock; after it, nothing is done
-- ARGV[3]  wait       milliseconds that each position adds to the score
-- ARGV[4]  ttl        how long a position that is new, or in the reply, is kept without a further
--                     request, milliseconds
-- ARGV[5]  release    0: never; 1: no task of the process holds the lock, and it is released
--                     unless a position of the process is next; 2: always
-- ARGV[6]  publish    PUBLISH or SPUBLISH
-- ARGV[7]  channel    prefix of the channel of a position; `:` and the holder follow
-- ARGV[8]  served     how many of the following the process has served; the others are
--                     enqueued, in their order
-- ARGV[9…] positions
-- Returns  {1, time, number, …}  held, with the numbers of the positions of this process that are
--                                next, up to the first of another process
--          {0, time}             not held by this holder; new positions are enqueued nevertheless
--          {3, time}             released, and the next position notified
--          {-1, time}            too late
--
-- Work: O(n) for n positions of a short queue, or one with Redisson's positions; otherwise
-- O(served + new). Sent twice, it removes once, and no waiter has two positions. The second
-- transmission releases the lock if the first one did not.
if tonumber(time) > tonumber(ARGV[2]) then
  return {-1, time}
end
local k, holder, wait, ends = KEYS, ARGV[1], tonumber(ARGV[3]), now + tonumber(ARGV[4])
-- Maximum number of positions in the reply, and so of those that a process serves with one request.
local MAX_POSITIONS = 64
local held = redis.call('HEXISTS', k[1], holder)
grant_grace(k, tonumber(ARGV[4]))
local last_served = 8 + tonumber(ARGV[8])
local served, new, scores, alive = {}, {}, {}, {}
for i = 9, last_served do
  served[#served + 1] = ARGV[i]
end
local score
for i = last_served + 1, #ARGV do
  local position = ARGV[i]
  if not redis.call('ZSCORE', k[3], position) then
    if not score then
      local last = redis.call('LINDEX', k[2], -1)
      score = last and redis.call('ZSCORE', k[3], last) or now + math.max(redis.call('PTTL', k[1]), 0)
    end
    score = score + wait
    new[#new + 1] = position
    scores[#scores + 1] = score
    scores[#scores + 1] = position
  end
  alive[#alive + 1] = ends
  alive[#alive + 1] = position
end
call_in_chunks('RPUSH', k[2], new)
call_in_chunks('ZADD', k[3], scores)
call_in_chunks('ZADD', k[4], alive)
if #served > 0 or #new > 0 or needs_cleanup(k) then
  update_queue(k, wait, served)
end
if held == 0 then
  if redis.call('EXISTS', k[1]) == 0 then
    -- The release may have notified a position that was just removed.
    notify_head(k, ARGV[6], ARGV[7])
  end
  return {0, time}
end
local out, kept = {1, time}, {}
local own = string.match(holder, '^.*:')
for _, position in ipairs(redis.call('LRANGE', k[2], 0, MAX_POSITIONS - 1)) do
  if string.sub(position, 1, #own) ~= own then
    break
  end
  out[#out + 1] = string.sub(position, #own + 1)
  kept[#kept + 1] = ends
  kept[#kept + 1] = position
end
-- The positions in the reply must not expire while the process relies on the reply.
call_in_chunks('ZADD', k[4], kept)
if ARGV[5] == '2' or (ARGV[5] == '1' and #out == 2) then
  redis.call('HDEL', k[1], holder)
  notify_head(k, ARGV[6], ARGV[7])
  return {3, time}
end
return out
