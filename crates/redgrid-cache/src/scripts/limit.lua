-- limit.lua: sets the maximum number of entries of a map cache. Appended to packed.lua.
--
-- ARGV[6]  1 to set it only if there is no limit
-- ARGV[7]  the limit, 0 for none
-- ARGV[8]  LRU or LFU
-- Returns  1 the limit is set, 0 there was one
--
-- Work: O(log n); removes up to 100 expired entries, and up to 100 beyond the limit. Sent twice, it
-- sets the same limit again.
local refusal = precheck()
if refusal then
  return refusal
end
if ARGV[6] == '1' and limit > 0 then
  return 0
end
purge(MAX_REMOVED)
if ARGV[7] == '0' or (options[2] or 'LRU') ~= ARGV[8] then
  -- Access times and access counts cannot be compared.
  redis.call('UNLINK', KEYS[4])
end
if ARGV[7] == '0' then
  redis.call('HDEL', KEYS[5], 'max-size', 'mode')
else
  redis.call('HSET', KEYS[5], 'max-size', ARGV[7], 'mode', ARGV[8])
end
limit = tonumber(ARGV[7])
evict('')
sync_expiry()
return 1
