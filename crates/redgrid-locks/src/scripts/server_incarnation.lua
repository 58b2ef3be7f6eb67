-- server_incarnation.lua: record from when a server process votes, unless that is recorded already.
--
-- KEYS[1]  incarnation  string; `<run id> <time>`; without a lifetime
-- ARGV[1]  after        microseconds from now until the process votes
-- ARGV[2]  only new     1: only if there is no mark at all, including that of an earlier process
-- Returns  {1, time}  marked: it votes after `time` (microseconds since 1970, as text)
--          {0, time}  this process has been marked before
--          {2, time}  not marked: `only new`, and there is a mark
--
-- Work: O(1), writes one key. Sent twice, it returns {0, time} the second time.
local now = redis.call('TIME')
local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local marked, votes_from = string.match(redis.call('GET', KEYS[1]) or '', '^(%x+) (%d+)$')
if marked == run_id then
  return {0, votes_from}
end
if marked and ARGV[2] == '1' then
  return {2, votes_from}
end
votes_from = string.format('%.0f', now[1] * 1000000 + now[2] + tonumber(ARGV[1]))
redis.call('SET', KEYS[1], run_id .. ' ' .. votes_from)
return {1, votes_from}
