-- dedup.lua: prefix of a script that is executed exactly once, however often it is sent.
--
-- KEYS[1]  memory     string; number and reply of the client's last request about this name; has a
--                     lifetime
-- ARGV[1]  not after  microseconds since 1970 by this server's clock; a copy that arrives later
--                     does nothing
-- ARGV[2]  number     rises with each request of the client about this name; only one such request
--                     is in flight at a time
-- ARGV[3]  lifetime   of the memory, in milliseconds; longer than the time in which copies of the
--                     request are sent
-- Returns  {1, answer}  executed, by this copy or an earlier one; `answer` is the list that the
--                       script passed to the function `answer`
--          {0, time}    too late: this copy did nothing; `time` is the server's time, in µs
--          {-1}         a later request of the client was executed: this copy did nothing
--
-- The script after this prefix must call `answer` once, with a list, as its last step. After its
-- first write, every later step must succeed.
local clock = redis.call('TIME')
if clock[1] * 1000000 + clock[2] > tonumber(ARGV[1]) then
  return {0, string.format('%.0f', clock[1] * 1000000 + clock[2])}
end
local known = redis.call('GET', KEYS[1])
if known then
  local space = string.find(known, ' ', 1, true)
  local last = tonumber(string.sub(known, 1, space - 1))
  if last == tonumber(ARGV[2]) then
    return {1, cmsgpack.unpack(string.sub(known, space + 1))}
  end
  if last > tonumber(ARGV[2]) then
    return {-1}
  end
end
local function answer(values)
  redis.call('SET', KEYS[1], ARGV[2] .. ' ' .. cmsgpack.pack(values), 'PX', ARGV[3])
  return {1, values}
end
