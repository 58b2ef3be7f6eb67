-- adder_save.lua: save what a member of an adder has counted to the total.
--
-- KEYS[1]  total     hash; `sum`, how many `saves` it has, and when it was `born`
-- KEYS[2]  saved     string; `number sum saves born`: this member's last save, which of the total's that was, and of which total
-- ARGV[1]  not after  microseconds since 1970 by this server's clock; later than that, nothing is done
-- ARGV[2]  last      `number sum` of the save before this one, as the member knows it; empty for none
-- ARGV[3]  next      `number sum` of this one
-- ARGV[4]  command   that adds to a field, [5] what is added
-- ARGV[6]  lifetime  of `saved`, in milliseconds
-- Returns  {'1', saves, born}              saved, now or by an earlier copy, as the `saves`-th
--          {'0', saves, born, saved, at}   not saved: the last save was another one, the `at`-th; both empty where there is none in
--                                          this total, which has so many `saves`
--          {-1, time}                      too late: not saved; and the server's time, in microseconds
--
-- Work: O(1), writes two keys. Sent twice, it saves once: the number rises with each save. What may be refused is done first, and is put
-- back where the addition is: then nothing is saved.
local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000000 + clock[2])
local known = redis.call('GET', KEYS[2]) or ''
local born = redis.call('HGET', KEYS[1], 'born') or ''
local last, at, of = string.match(known, '^(%S+ %S+) (%S+) (%S+)$')
if of ~= born then
  last, at = '', ''
end
if last == ARGV[3] then
  return {'1', at, born}
end
if tonumber(now) > tonumber(ARGV[1]) then
  return {-1, now}
end
local saves = redis.call('HGET', KEYS[1], 'saves') or '0'
if last ~= ARGV[2] then
  return {'0', saves, born, last, at}
end
saves = string.format('%.0f', saves + 1)
local is_new = born == '' and not redis.call('HGET', KEYS[1], 'sum')
if born == '' then
  born = now
end
redis.call('SET', KEYS[2], ARGV[3] .. ' ' .. saves .. ' ' .. born, 'PX', ARGV[6])
local done = redis.pcall('HSET', KEYS[1], 'saves', saves, 'born', born)
if type(done) ~= 'table' or not done.err then
  done = redis.pcall(ARGV[4], KEYS[1], 'sum', ARGV[5])
  if type(done) ~= 'table' or not done.err then
    return {'1', saves, born}
  end
  if is_new then
    redis.pcall('DEL', KEYS[1])
  end
end
-- What is empty is read as nothing, and soon gone.
redis.call('SET', KEYS[2], known, 'PX', known == '' and '1' or ARGV[6])
return done
