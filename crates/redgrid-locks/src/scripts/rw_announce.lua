-- rw_announce.lua: have new readers step back for the writers of a client that wait, or for a reader that is to write.
--
-- KEYS[1]  waiting   hash: who has a writer that waits, since when (µs), how long it is believed (ms), the number of the word
-- ARGV[1]  mark      its field: the client's id, or the reader that is to write
-- ARGV[2]  lifetime  milliseconds for which it is believed
-- ARGV[3]  number    of this word, higher than those before it
-- Returns  how many have said so
--
-- Work: O(clients with a waiting writer), writes one key. Sent twice, it is believed a little longer.
local now = redis.call('TIME')
local time = now[1] .. string.format('%06d', now[2])
local ms, since = math.floor(tonumber(time) / 1000), time
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local came, believed = string.match(all[i + 1], '^(%d+) (%d+)')
  if not came or tonumber(believed) <= ms then
    redis.call('HDEL', KEYS[1], all[i])
  elseif all[i] == ARGV[1] then
    since = came
  end
end
redis.call('HSET', KEYS[1], ARGV[1], since .. ' ' .. string.format('%.0f', ms + ARGV[2]) .. ' ' .. ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('HLEN', KEYS[1])
