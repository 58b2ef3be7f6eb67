-- rw_bury.lua: take readers out of a read-write lock that are in it no more: their leases have ended, and nobody has said so.
--
-- KEYS[1]       lock     hash: `mode`, and a field for each holder
-- KEYS[2…]      level    strings, for each reader below as many as it has entered; there while a lease of it lasts
-- ARGV[1]       publish  PUBLISH or SPUBLISH
-- ARGV[2]       channel  where waiters listen; the message is `0`
-- ARGV[2i + 1]  reader   field of the lock
-- ARGV[2i + 2]  entries  how often it had entered when it was looked at
-- Returns  how many were taken out
--
-- Work: O(keys), writes one. Sent twice, it takes out once. A reader that has entered or left since is left alone, and so are all
-- while somebody writes: a writer's own read ends with it.
if redis.call('HGET', KEYS[1], 'mode') ~= 'read' then
  return 0
end
local at, dead = 2, 0
for i = 3, #ARGV - 1, 2 do
  local alive = redis.call('HGET', KEYS[1], ARGV[i]) ~= ARGV[i + 1]
  for _ = 1, tonumber(ARGV[i + 1]) do
    alive = redis.call('EXISTS', KEYS[at]) == 1 or alive
    at = at + 1
  end
  if not alive then
    dead = dead + redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
if dead > 0 then
  if redis.call('HLEN', KEYS[1]) <= 1 then
    redis.call('DEL', KEYS[1])
  end
  redis.pcall(ARGV[1], ARGV[2], '0')
end
return dead
