-- notify_wait.lua: join the queue, stay in it, or return a notification.
--
-- KEYS     the hash, the queue, notified participants: see notify_queue.lua
-- ARGV[1]  not after     microseconds since 1970 by this server's clock; later than that, nothing
--                        is done
-- ARGV[2]  id            of the participant
-- ARGV[3]  generation    of the participant
-- ARGV[4]  lease         milliseconds for which the position is kept without renewal
-- ARGV[5]  consume       1: this reply consumes a notification; 0: a later leave request does
-- ARGV[6]  publish       PUBLISH or SPUBLISH
-- ARGV[7]  channel       for notifications
-- ARGV[8]  store permit  1: without a waiter, a notification is stored for the next one
-- ARGV[9]  was queued    1: it was in the queue before
-- Returns  {1}       notified; also if it was in the queue before and is not stored: a failover may
--                    have lost a notification, too
--          {0, ms}   not yet; the first lease of a notified participant ends after ms, -1 if there
--                    is none
--          {-1}      too late: nothing was done
--          {-2}      this generation has left, or a later one exists
--
-- Work: O(log n), and for at most 16 expired waiters at the head. Sent twice, it joins the queue
-- once.
if is_late(ARGV[1]) then
  return {-1}
end
if ARGV[9] == '1' then
  allow_writes_on_full_server()
end
local id, own_generation, lease = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local function own_state()
  local generation, _, state = participant(id)
  return generation == own_generation and state
end
if own_state() == 'n' and redis.call('ZSCORE', k[3], id) then
  -- The participant is alive: its notification goes to no other waiter.
  redis.call('ZADD', k[3], now + lease, id)
end
pass_on_expired(ARGV[6], ARGV[7], ARGV[8])
local generation, joined_in, state = participant(id)
if generation and (generation > own_generation or generation == own_generation and state == 'l') then
  return {-2}
end
local joins = generation == own_generation and state == 'w' and joined_in == field('round') and not redis.call('ZSCORE', k[2], id)
if generation ~= own_generation then
  if generation then
    redis.call('ZREM', k[2], id)
    if redis.call('ZREM', k[3], id) == 1 then
      notify_next(ARGV[6], ARGV[7], ARGV[8])
    end
  end
  joined_in, state, joins = field('round'), 'a', ARGV[9] ~= '1'
end
if joins then
  for _ = 1, 16 do
    local first = redis.call('ZRANGE', k[2], 0, 0)[1]
    if not first or not remove_if_expired(first, ARGV[8]) then
      break
    end
  end
  if ARGV[8] == '1' and field('permit') == 1 then
    redis.call('HSET', k[1], 'permit', '0')
    state = 'n'
    redis.call('ZADD', k[3], now + lease, id)
  else
    state = 'w'
    redis.call('ZADD', k[2], redis.call('HINCRBY', k[1], 'next', 1), id)
    purge(4 * redis.call('ZCARD', k[2]) + 64)
  end
end
if state == 'w' and joined_in < field('round') then
  state = 'a'
elseif state == 'n' and ARGV[5] == '1' then
  redis.call('ZREM', k[3], id)
  state = 'd'
elseif state == 'n' then
  redis.call('ZADD', k[3], now + lease, id)
end
set_participant(id, ARGV[3], joined_in, state, now + lease)
extend_ttl(lease)
if state == 'w' then
  return {0, next_lease_end(k[3])}
end
return {1}
