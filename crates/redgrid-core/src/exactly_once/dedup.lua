-- dedup.lua: the beginning of a script that is executed exactly once, however often it is sent.
--
-- KEYS[1]  memory     string; the number of the client's last request about this name, and its answer; has a lifetime
-- ARGV[1]  not after  microseconds since 1970 by this server's clock; later than that, nothing is done
-- ARGV[2]  number     rises with each request of the client about this name; one is under way at a time
-- ARGV[3]  lifetime   of the memory, in milliseconds; longer than any copy of the request is sent
-- Returns  {1, answer}  done, now or by an earlier copy; `answer` is what the script behind this gave to `answer`
--          {0, time}    too late: nothing was done, by this copy; and the server's time, in microseconds
--          {-1}         a later request of the client has been carried out: nothing was done, by this copy
--
-- The script behind this calls `answer` once, with a list, when all else is done. Until then it only reads where it may fail.
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
