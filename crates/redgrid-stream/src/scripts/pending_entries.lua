-- pending_entries.lua: entries of a stream that are pending in a group, with their fields.
--
-- KEYS[1]  stream
-- ARGV     what XPENDING takes behind the key
-- Returns  entries, as XRANGE tells them: without those that were removed from the stream
--
-- Work: O(count), which ARGV has; writes nothing. Sent twice, it answers twice.
local out = {}
for _, pending in ipairs(redis.call('XPENDING', KEYS[1], unpack(ARGV))) do
  out[#out + 1] = redis.call('XRANGE', KEYS[1], pending[1], pending[1])[1]
end
return out
