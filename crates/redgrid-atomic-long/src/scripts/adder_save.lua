-- adder_save.lua: save the count of a member of an adder to the total.
--
-- KEYS[1]  total      hash; `sum`, the number of `saves`, and when it was `born`
-- KEYS[2]  saved      string; `sequence sum saves born`: this member's last save, its number among
--                     the saves of the total, and the total's `born`
-- ARGV[1]  not after  microseconds since 1970 by this server's clock; later than that, nothing is
--                     done
-- ARGV[2]  last       `sequence sum` of the save before this one, as recorded by the member; empty
--                     for none
-- ARGV[3]  next       `sequence sum` of this one
-- ARGV[4]  command    that adds to a field, [5] the amount to add
-- ARGV[6]  lifetime   of `saved`, in milliseconds
-- Returns  {'1', saves, born}              saved, now or by an earlier transmission, as save number
--                                          `saves`
--          {'0', saves, born, saved, at}   not saved: the last save was another one, number `at`;
--                                          `saved` and `at` are empty if there is none in this
--                                          total, which has `saves` saves
--          {-1, time}                      too late: not saved; and the server's time, in
--                                          microseconds
--
-- Work: O(1), writes two keys. Sent twice, it saves once: the sequence grows with each save. The
-- first writes are undone if the server refuses the addition: then nothing is saved.
local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000000 + clock[2])
local previous = redis.call('GET', KEYS[2]) or ''
local born = redis.call('HGET', KEYS[1], 'born') or ''
local last, at, total_born = string.match(previous, '^(%S+ %S+) (%S+) (%S+)$')
if total_born ~= born then
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
local reply = redis.pcall('HSET', KEYS[1], 'saves', saves, 'born', born)
if type(reply) ~= 'table' or not reply.err then
  reply = redis.pcall(ARGV[4], KEYS[1], 'sum', ARGV[5])
  if type(reply) ~= 'table' or not reply.err then
    return {'1', saves, born}
  end
  if is_new then
    redis.pcall('DEL', KEYS[1])
  end
end
-- An empty value counts as none, and expires soon.
redis.call('SET', KEYS[2], previous, 'PX', previous == '' and '1' or ARGV[6])
return reply
