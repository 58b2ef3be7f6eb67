-- notify_one.lua: notify one waiter. Behind dedup.lua: it is executed exactly once.
--
-- KEYS     after the deduplication key: hash, queue, notified participants: see notify_queue.lua
-- ARGV[4]  publish       PUBLISH or SPUBLISH
-- ARGV[5]  channel       for notifications
-- ARGV[6]  store permit  1: without a waiter, the notification is stored for the next one
-- Answers  {1} if there was a waiter, {0} if not
--
-- Work: O(log n), and the same for each expired waiter at the head.
pass_on_expired(ARGV[4], ARGV[5], ARGV[6])
local notified = notify_next(ARGV[4], ARGV[5], ARGV[6])
extend_ttl(0)
return answer({notified})
