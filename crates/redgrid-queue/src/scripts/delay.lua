-- delay.lua: elements that are to be due later, as Redisson's RDelayedQueue has them.
--
-- KEYS[1]  sorted set: elements behind an id, by when they are due, in milliseconds since 1970
-- ARGV[1]  PUBLISH or SPUBLISH
-- ARGV[2]  channel of ours; the message is when the first is due
-- ARGV[3]  channel of Redisson's, whose clients publish plainly; the same message
-- ARGV[4]  delay in milliseconds, and ARGV[5] an element; and so on, 500 of them at most
-- Returns  the ids, in their order
--
-- An id is the server's time in microseconds, 51 bits of 64, and a number below it: what is due in one millisecond is in the order in which it
-- was pushed. What is there already is not written over: it has the next number.
--
-- Work: O(log n) for each. Not to be sent twice: they would be in twice.
local clock = redis.call('TIME')
local micros = clock[1] * 1000000 + clock[2]
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local before = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
local ids, number = {}, 0
for at = 4, #ARGV, 2 do
  local due = string.format('%.0f', now + tonumber(ARGV[at]))
  repeat
    local id = struct.pack('>I4I4', math.floor(micros / 524288), micros % 524288 * 8192 + number)
    local member = struct.pack('Bc0Lc0', #id, id, #ARGV[at + 1], ARGV[at + 1])
    number = number + 1
    local is_new = redis.call('ZADD', KEYS[1], 'NX', due, member) == 1
    if is_new then
      ids[#ids + 1] = id
    end
  until is_new
end
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
if first[1] ~= before then
  redis.pcall(ARGV[1], ARGV[2], first[2])
  redis.pcall('PUBLISH', ARGV[3], first[2])
end
return ids
