-- limit.lua: how many entries a map cache has at most. Behind packed.lua.
--
-- ARGV[6]  1 where only one that has no limit is to have it
-- ARGV[7]  how many, 0 for as many as come
-- ARGV[8]  LRU or LFU
-- Returns  1 it has this limit now, 0 it had one
--
-- Work: O(log n); takes out 100 that are over, and 100 that are more than the limit. Sent twice, it tells a second time.
local no = refused()
if no then
  return no
end
if ARGV[6] == '1' and limit > 0 then
  return 0
end
purge(MOST)
if ARGV[7] == '0' or (options[2] or 'LRU') ~= ARGV[8] then
  -- Times are no numbers of uses.
  redis.call('UNLINK', KEYS[4])
end
if ARGV[7] == '0' then
  redis.call('HDEL', KEYS[5], 'max-size', 'mode')
else
  redis.call('HSET', KEYS[5], 'max-size', ARGV[7], 'mode', ARGV[8])
end
limit = tonumber(ARGV[7])
evict('')
together()
return 1
