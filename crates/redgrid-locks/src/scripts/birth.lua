-- birth.lua: mark from when on a server votes, if this process of it has no mark yet.
--
-- KEYS[1]  birth  string; `<run id> <time>`; never with a lifetime
-- ARGV[1]  after  microseconds from now
-- ARGV[2]  only   1: where there is no mark at all, also not that of an earlier process
-- Returns  {1, time}  marked: it votes from `time` on (microseconds since 1970, as text)
--          {0, time}  this process was marked before
--          {2, time}  only where there is none, and there is one
--
-- Work: O(1), writes one key. Sent twice, it answers {0, time} the second time.
local now = redis.call('TIME')
local process = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local run, from = string.match(redis.call('GET', KEYS[1]) or '', '^(%x+) (%d+)$')
if run == process then
  return {0, from}
end
if run and ARGV[2] == '1' then
  return {2, from}
end
from = string.format('%.0f', now[1] * 1000000 + now[2] + tonumber(ARGV[1]))
redis.call('SET', KEYS[1], process .. ' ' .. from)
return {1, from}
