-- leave.lua: removes a subscriber. Appended to groups.lua.
--
-- ARGV[1]  subscriber
-- Returns  1 if it existed, or 0
--
-- Work: O(groups), and the removed messages, about 1,000. Sent twice, it acts once, and the second
-- copy returns 0.
local existed = 0
if group_positions()[ARGV[1]] then
  existed = redis.call('XGROUP', 'DESTROY', KEYS[1], ARGV[1])
end
redis.call('ZREM', KEYS[2], ARGV[1])
trim()
return existed
