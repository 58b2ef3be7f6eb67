-- acknowledge.lua: acknowledges all messages of a subscriber up to an id. Appended to groups.lua.
--
-- ARGV[1]  subscriber
-- ARGV[2]  id          this message, and all before it, are acknowledged
-- Returns  1  they are acknowledged
--          0  they are not: the subscriber does not exist, or the message is not in the stream, for
--             example on a primary to which it was not replicated
--
-- Work: O(groups), and the removed messages, about 1,000. Evicts up to 10 subscribers with expired
-- leases. Sent twice, it acts once.
local last = group_positions()[ARGV[1]]
if not last then
  return 0
end
if is_before(last, ARGV[2]) then
  if #redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2]) == 0 then
    return 0
  end
  redis.call('XGROUP', 'SETID', KEYS[1], ARGV[1], ARGV[2])
end
evict_expired()
trim()
return 1
