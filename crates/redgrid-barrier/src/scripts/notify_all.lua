-- notify_all.lua: notify all waiters. Behind dedup.lua: it is executed exactly once.
--
-- KEYS     after the deduplication key: hash, queue, notified participants: see notify_queue.lua
-- ARGV[4]  publish  PUBLISH or SPUBLISH
-- ARGV[5]  channel  for notifications
-- Answers  {count}  the number of waiters in the queue
--
-- Work: O(n) for n waiters, at once.
local count = redis.call('ZCARD', k[2])
if count > 0 then
  redis.call('HINCRBY', k[1], 'round', 1)
  redis.call('DEL', k[2])
  redis.pcall(ARGV[4], ARGV[5], '0')
end
extend_ttl(0)
return answer({count})
