-- acknowledge.lua: have a subscriber behind a message.
--
-- ARGV[1]  subscriber
-- ARGV[2]  id          this message, and all before it, are acknowledged
-- Returns  1  it is behind it
--          0  it is not: there is no such subscriber, or the message is not there any more, as on a primary to which it was not copied
--
-- Work: O(groups), and what is dropped, about 1,000 messages. Takes out up to 10 subscribers whose time is over. Sent twice, it acts once.
local last = groups()[ARGV[1]]
if not last then
  return 0
end
if is_before(last, ARGV[2]) then
  if #redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2]) == 0 then
    return 0
  end
  redis.call('XGROUP', 'SETID', KEYS[1], ARGV[1], ARGV[2])
end
bury()
trim()
return 1
