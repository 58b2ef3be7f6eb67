-- release_many.lua: release several locks, and notify the waiters.
--
-- KEYS[i]       lock     hash; one field, the holder
-- ARGV[1]       publish  PUBLISH or SPUBLISH
-- ARGV[2i]      holder
-- ARGV[2i + 1]  channel  where its waiters subscribe; empty if releases are not published
-- Returns  a list: 1 + n it was this holder's, and is free, and n subscribers were notified; -2 - n
--          the same, but the message was rejected and n subscribers did not get it; 0 it was not
--          this holder's; -1 the key cannot be written
--
-- Work: O(keys), writes each that is held. Sent twice, it returns 0 the second time.
local out = {}
for i, key in ipairs(KEYS) do
  local freed = redis.pcall('HDEL', key, ARGV[2 * i])
  if type(freed) == 'table' then
    freed = -1
  elseif freed == 1 and ARGV[2 * i + 1] ~= '' then
    local receivers = redis.pcall(ARGV[1], ARGV[2 * i + 1], '0')
    if type(receivers) == 'number' then
      freed = receivers + 1
    else
      local subscribers = redis.pcall('PUBSUB', ARGV[1] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', ARGV[2 * i + 1])
      freed = -2 - (subscribers[2] or 2)
    end
  end
  out[i] = freed
end
return out
