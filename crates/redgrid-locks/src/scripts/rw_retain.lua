-- rw_retain.lua: retain a read-write lock for a while after its holder has released it.
--
-- KEYS[1]  lock     hash: `mode`, and a field for each holder
-- KEYS[2]  timeout  string of a reader; for a writer, which has none, the lock again
-- KEYS[3]  kept     timeout key of the field that replaces a reader; for a writer the lock again
-- ARGV[1]  holder
-- ARGV[2]  keep     milliseconds from now
-- ARGV[3]  publish  PUBLISH or SPUBLISH
-- ARGV[4]  channel  where waiters subscribe: they have seen a longer lease and must poll again
-- Returns  1  the lock ends after `keep`; later with other holders
--          0  it was not held by this holder
--
-- The field `<holder>:kept` replaces the holder: a late renewal does not find its field and changes
-- nothing.
--
-- Work: O(1), writes three keys. Sent twice, it returns 1 the second time and changes nothing.
local kept = ARGV[1] .. ':kept'
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return redis.call('HEXISTS', KEYS[1], kept)
end
if redis.call('HLEN', KEYS[1]) <= 2 or redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
-- DEL comes before the writes that need memory: a full server refuses those as the first write of a
-- script.
if KEYS[2] ~= KEYS[1] then
  redis.call('DEL', KEYS[2])
end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[1], kept, '1')
if KEYS[2] ~= KEYS[1] then
  redis.call('SET', KEYS[3], '1', 'PX', ARGV[2])
end
redis.pcall(ARGV[3], ARGV[4], '0')
return 1
