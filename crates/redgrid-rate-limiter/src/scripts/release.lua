-- release.lua: gives back permits of the oldest entries of the log, of any client. Appended to
-- dedup.lua and log.lua, with their KEYS.
--
-- ARGV[4]  permits  number of them
-- ARGV[5]  publish  PUBLISH or SPUBLISH
-- ARGV[6]  channel  where waiting clients are notified
-- Returns  {'0'}               no rate is set
--          {'1', given, over}  how many permits that still counted this call has made free; how
--                              many had expired
--
-- Expired entries that are still in the log are given back first, as in Redisson, instead of
-- entries that still count.
--
-- Work: O(log n) for n entries in the log; at most 1,000 expired entries removed and 1,000 given
-- back. Sent twice, it acts once.
local todo = math.max(0, tonumber(ARGV[4]) - freed)
local given, gone, again, rest = 0, {}, {}, {}
local piece = {}
if todo > 0 and not more then
  piece = redis.call('ZRANGE', permits, #over, #over + DROPS - 1, 'WITHSCORES')
end
for n = 1, #piece, 2 do
  if todo == 0 then
    break
  end
  local id, there = struct.unpack('Bc0I', piece[n])
  local part = math.min(there, todo)
  todo, given = todo - part, given + part
  table.insert(gone, piece[n])
  table.insert(again, piece[n + 1])
  table.insert(again, piece[n])
  if part < there then
    rest = {piece[n + 1], struct.pack('Bc0I', #id, id, there - part)}
  end
end
if #gone > 0 then
  local refused = refused_to_write()
  if refused then
    return refused
  end
  redis.call('ZREM', permits, unpack(gone))
end
if given > 0 or freed > 0 or used then
  if used then
    used = used - given
  end
  local refused = write(used and 0 or -given, rest)
  if refused then
    if #again > 0 then
      redis.call('ZADD', permits, unpack(again))
    end
    return refused
  end
end
live()
if given > 0 or freed > 0 then
  redis.pcall(ARGV[5], ARGV[6], '0')
end
return answer({'1', string.format('%.0f', given), string.format('%.0f', freed)})
