-- register.lua: registers a subscriber, or renews its lease. Appended to groups.lua.
--
-- ARGV[1]  subscriber
-- ARGV[2]  lease       in milliseconds
-- ARGV[3]  from        where a new subscriber starts: after this id, `$` for after the newest
--                      message; empty to renew only, without creating a subscriber
-- Returns  {0, id}     the subscriber exists; all messages up to this id are acknowledged
--          {1, id}     a new subscriber was created, which starts after this id
--          {-1, '0-0'} there is no such subscriber, and none was created
--
-- Work: O(groups). Evicts up to 10 subscribers with expired leases. Sent twice, it acts once.
local last = group_positions()[ARGV[1]]
if not last and ARGV[3] == '' then
  return {-1, '0-0'}
end
-- This is the first write: if it is not permitted, nothing is written.
redis.call('ZADD', KEYS[2], now + tonumber(ARGV[2]), ARGV[1])
local is_new = 0
if not last then
  last, is_new = newest_id(), 1
  -- After a failover, the new primary may assign ids that the failed one had already assigned. The
  -- group must not skip such messages.
  if ARGV[3] ~= '$' and is_before(ARGV[3], last) then
    last = ARGV[3]
  end
  local created = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], last, 'MKSTREAM')
  if created.err then
    redis.call('ZREM', KEYS[2], ARGV[1])
    return created
  end
end
evict_expired()
return {is_new, last}
