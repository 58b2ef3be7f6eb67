-- adder_save.lua: save what a member of an adder has counted to the total.
--
-- KEYS[1]  total     hash; `sum`, how many `saves` it has, and when it was `born`
-- KEYS[2]  saved     string; `number sum saves`: this member's last save, and which of the total's that was
-- ARGV[1]  not after  microseconds since 1970 by this server's clock; later than that, nothing is done
-- ARGV[2]  last      `number sum` of the save before this one, as the member knows it; empty for none
-- ARGV[3]  next      `number sum` of this one
-- ARGV[4]  command   that adds to a field, [5] what is added
-- ARGV[6]  lifetime  of `saved`, in milliseconds
-- Returns  {'1', saves, born}           saved, now or by an earlier copy, as the `saves`-th
--          {'0', saves, born, saved}    not saved: the last save was another one
--          {'-1', time}                 too late: not saved; and the server's time, in microseconds
--
-- Work: O(1), writes two keys. Sent twice, it saves once: the number rises with each save.
local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000000 + clock[2])
if tonumber(now) > tonumber(ARGV[1]) then
  return {'-1', now}
end
local known = redis.call('GET', KEYS[2]) or ''
local last, at = string.match(known, '^(%S+ %S+) (%S+)$')
local born = redis.call('HGET', KEYS[1], 'born') or ''
if last == ARGV[3] then
  return {'1', at, born}
end
if (last or '') ~= ARGV[2] then
  return {'0', redis.call('HGET', KEYS[1], 'saves') or '0', born, last or ''}
end
local added = redis.pcall(ARGV[4], KEYS[1], 'sum', ARGV[5])
if type(added) == 'table' and added.err then
  return added
end
if born == '' then
  born = now
  redis.call('HSET', KEYS[1], 'born', born)
end
local saves = tostring(redis.call('HINCRBY', KEYS[1], 'saves', 1))
redis.call('SET', KEYS[2], ARGV[3] .. ' ' .. saves, 'PX', ARGV[6])
return {'1', saves, born}
