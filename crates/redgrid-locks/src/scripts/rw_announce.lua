-- rw_announce.lua: make new readers wait behind the waiting writers of a client, or an upgrading
-- reader.
--
-- KEYS[1]  waiting   hash: waiter → start of its wait (µs), end of the announcement (ms),
--                    number of the announcement
-- ARGV[1]  waiter    field of the hash: the client's id, or the reader that upgrades
-- ARGV[2]  lifetime  of the announcement, milliseconds
-- ARGV[3]  number    of this announcement, higher than those before it
-- Returns  the number of waiters with announcements
--
-- Work: O(clients with a waiting writer), writes one key. Sent twice, the announcement lasts
-- slightly longer.
local now = redis.call('TIME')
local time = now[1] .. string.format('%06d', now[2])
local ms, since = math.floor(tonumber(time) / 1000), time
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local waits_since, announced_until = string.match(all[i + 1], '^(%d+) (%d+)')
  if not waits_since or tonumber(announced_until) <= ms then
    redis.call('HDEL', KEYS[1], all[i])
  elseif all[i] == ARGV[1] then
    since = waits_since
  end
end
redis.call('HSET', KEYS[1], ARGV[1], since .. ' ' .. string.format('%.0f', ms + ARGV[2]) .. ' ' .. ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('HLEN', KEYS[1])
