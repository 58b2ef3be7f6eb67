-- rw_evict_expired.lua: remove readers with expired leases from a read-write lock.
--
-- KEYS[1]       lock     hash: `mode`, and a field for each holder
-- KEYS[2…]      timeout  strings, one for each entry of each reader below; present while the lease
--                        of the entry lasts
-- ARGV[1]       publish  PUBLISH or SPUBLISH
-- ARGV[2]       channel  where waiters subscribe; the message is `0`
-- ARGV[2i + 1]  reader   field of the lock
-- ARGV[2i + 2]  entries  how often it had entered when the holders were read
-- Returns  the number of readers that were removed
--
-- Work: O(keys), writes one. Sent twice, it removes once. A reader that has entered or left since
-- the holders were read is not removed. While there is a writer, no reader is removed: only the
-- writer itself can read then, and its read ends with the lock.
if redis.call('HGET', KEYS[1], 'mode') ~= 'read' then
  return 0
end
local at, evicted = 2, 0
for i = 3, #ARGV - 1, 2 do
  local alive = redis.call('HGET', KEYS[1], ARGV[i]) ~= ARGV[i + 1]
  for _ = 1, tonumber(ARGV[i + 1]) do
    alive = redis.call('EXISTS', KEYS[at]) == 1 or alive
    at = at + 1
  end
  if not alive then
    evicted = evicted + redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
if evicted > 0 then
  if redis.call('HLEN', KEYS[1]) <= 1 then
    redis.call('DEL', KEYS[1])
  end
  redis.pcall(ARGV[1], ARGV[2], '0')
end
return evicted
