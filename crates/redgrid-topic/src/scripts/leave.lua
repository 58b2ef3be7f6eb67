-- leave.lua: be no subscriber any more.
--
-- ARGV[1]  subscriber
-- Returns  1 if it was one, or 0
--
-- Work: O(groups), and what is dropped, about 1,000 messages. Sent twice, it acts once, and says 0 the second time.
local was = 0
if groups()[ARGV[1]] then
  was = redis.call('XGROUP', 'DESTROY', KEYS[1], ARGV[1])
end
redis.call('ZREM', KEYS[2], ARGV[1])
trim()
return was
