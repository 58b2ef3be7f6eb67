-- delay.lua: adds elements that are due later, as Redisson's RDelayedQueue stores them.
--
-- KEYS[1]  sorted set: elements after an id, by their due times in milliseconds since 1970
-- ARGV[1]  PUBLISH or SPUBLISH
-- ARGV[2]  our channel; the message is the due time of the first element
-- ARGV[3]  the channel of Redisson, which always uses PUBLISH; the same message
-- ARGV[4…] delay in milliseconds and element, alternately; up to 500 of them
-- Returns  the ids, in their order
--
-- An id is the server's time in microseconds (51 of 64 bits), followed by a counter in the lower
-- bits. So elements that are due in the same millisecond are in the order in which they were added.
-- An id that exists is skipped.
--
-- Work: O(log n) for each. Not to be sent twice: the elements would be added twice.
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
