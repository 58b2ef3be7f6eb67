-- barrier_leave.lua: wait no more.
--
-- KEYS[1]  barrier  hash
-- KEYS[2]  waiting  sorted set
-- ARGV[1]  id       the seat
-- ARGV[2]  turn     of the seat
-- Returns  {1, round, leader}  too late: the round had opened with this one in it
--          {0}                 it waits no more, and copies that come late do not make it wait
--
-- Work: O(log waiting). Sent twice, it leaves once.
local turn, came, mark = seat(ARGV[1])
if turn and turn > tonumber(ARGV[2]) then
  return {0}
end
if turn == tonumber(ARGV[2]) and mark ~= 'l' and came < field('round') then
  keep(0)
  return {1, came + 1, mark == 'o' and 1 or 0}
end
redis.call('ZREM', k[2], ARGV[1])
sit(ARGV[1], ARGV[2], 0, 'l', now)
keep(0)
return {0}
