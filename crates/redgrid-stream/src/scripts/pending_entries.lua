-- pending_entries.lua: reads the pending entries of a group, with their fields.
--
-- KEYS[1]  stream
-- ARGV     the arguments of XPENDING after the key
-- Returns  entries, as XRANGE returns them, without those that were removed from the stream
--
-- Work: O(count), limited by the arguments; writes nothing. Sent twice, it replies twice.
local entries = {}
for _, pending in ipairs(redis.call('XPENDING', KEYS[1], unpack(ARGV))) do
  entries[#entries + 1] = redis.call('XRANGE', KEYS[1], pending[1], pending[1])[1]
end
return entries
