-- notify_leave.lua: leave the queue.
--
-- KEYS     the hash, the queue, notified participants: see notify_queue.lua
-- ARGV[1]  id            of the participant
-- ARGV[2]  generation    of the participant
-- ARGV[3]  consumed      1: it consumed its notification, if it had one; 0: the notification
--                        goes to the next waiter
-- ARGV[4]  publish       PUBLISH or SPUBLISH
-- ARGV[5]  channel       for notifications
-- ARGV[6]  store permit  1: without a waiter, the notification is stored for the next one
-- Returns  1 if it had been notified, 0 if not
--
-- Work: O(log n). Sent twice, it leaves once.
local generation, _, state = participant(ARGV[1])
if generation and (generation > tonumber(ARGV[2]) or generation == tonumber(ARGV[2]) and state == 'l') then
  return 0
end
redis.call('ZREM', k[2], ARGV[1])
local was_pending = redis.call('ZREM', k[3], ARGV[1]) == 1
local was_notified = generation == tonumber(ARGV[2]) and (state == 'n' or state == 'd')
set_participant(ARGV[1], ARGV[2], 0, 'l', now)
if was_pending and not was_notified or was_notified and ARGV[3] == '0' then
  notify_next(ARGV[4], ARGV[5], ARGV[6])
end
extend_ttl(0)
return was_notified and 1 or 0
