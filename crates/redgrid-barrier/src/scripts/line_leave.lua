-- line_leave.lua: wait no more.
--
-- KEYS     the hash, the line, who is notified: see line.lua
-- ARGV[1]  id       the seat
-- ARGV[2]  turn     of the seat
-- ARGV[3]  took     1: it acted on its notification, if it had one; 0: that goes to the next
-- ARGV[4]  publish  PUBLISH or SPUBLISH
-- ARGV[5]  channel  where notifications are told
-- ARGV[6]  stores   1: what nobody waits for is kept for who comes next
-- Returns  1 if it had been notified, 0 if not
--
-- Work: O(log n). Sent twice, it leaves once.
local turn, _, mark = seat(ARGV[1])
if turn and (turn > tonumber(ARGV[2]) or turn == tonumber(ARGV[2]) and mark == 'l') then
  return 0
end
redis.call('ZREM', k[2], ARGV[1])
local pending = redis.call('ZREM', k[3], ARGV[1]) == 1
local had = turn == tonumber(ARGV[2]) and (mark == 'n' or mark == 'd')
sit(ARGV[1], ARGV[2], 0, 'l', now)
if pending and not had or had and ARGV[3] == '0' then
  give(ARGV[4], ARGV[5], ARGV[6])
end
keep(0)
return had and 1 or 0
