-- give_back.lua: give back permits of one entry of the log that still counts. Appended to dedup.lua
-- and log.lua, with their KEYS.
--
-- ARGV[4]  id       16 bytes, of the entry
-- ARGV[5]  score    of the entry
-- ARGV[6]  permits  number of them
-- ARGV[7]  publish  PUBLISH or SPUBLISH
-- ARGV[8]  channel  where waiting clients are notified
-- Returns  {'0'}         no rate is set
--          {'1', given}  how many this call has made free: 0 if the entry has expired or is not in
--                        the log
--
-- Work: O(log n) for n entries in the log; reads at most 100 entries of the same score. Sent twice,
-- it acts once.
local given = 0
if tonumber(ARGV[5]) > now - interval then
  for _, entry in ipairs(redis.call('ZRANGEBYSCORE', permits, ARGV[5], ARGV[5], 'LIMIT', 0, 100)) do
    local id, there = struct.unpack('Bc0I', entry)
    if id == ARGV[4] then
      given = math.min(there, tonumber(ARGV[6]))
      local rest = {}
      if given < there then
        rest = {ARGV[5], struct.pack('Bc0I', #id, id, there - given)}
      end
      if used then
        used = used - given
      end
      local refused = refused_to_write()
      if refused then
        return refused
      end
      redis.call('ZREM', permits, entry)
      refused = write(used and 0 or -given, rest)
      if refused then
        redis.call('ZADD', permits, ARGV[5], entry)
        return refused
      end
      break
    end
  end
end
live()
if given > 0 then
  redis.pcall(ARGV[7], ARGV[8], '0')
end
return answer({'1', string.format('%.0f', given)})
