-- line_wait.lua: stand in line, stay in it, or learn that one is notified.
--
-- KEYS     the hash, the line, who is notified: see line.lua
-- ARGV[1]  not after  microseconds since 1970 by this server's clock; later than that, nothing is done
-- ARGV[2]  id         the seat
-- ARGV[3]  turn       of the seat
-- ARGV[4]  lease      milliseconds, for which the place is kept without another word
-- ARGV[5]  takes      1: whoever is notified has taken it with this answer; 0: it says so when it leaves
-- ARGV[6]  publish    PUBLISH or SPUBLISH
-- ARGV[7]  channel    where notifications are told
-- ARGV[8]  stores     1: what nobody waits for is kept for who comes next
-- ARGV[9]  again      1: it stood in line before
-- Returns  {1}       notified; also who stood in line and is not known any more, as a failover may have lost a
--                    notification
--          {0, ms}   not yet; the lease of the first who is notified ends in so long, -1 where nobody is
--          {-1}      too late: nothing was done
--          {-2}      this turn has left, or another has its seat
--
-- Work: O(log n), and for 16 of the dead in front at most. Sent twice, it stands in line once.
if is_late(ARGV[1]) then
  return {-1}
end
if ARGV[9] == '1' then
  keep_on_full_server()
end
local id, mine, lease = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local function is_mine()
  local turn, _, mark = seat(id)
  return turn == mine and mark
end
if is_mine() == 'n' and redis.call('ZSCORE', k[3], id) then
  -- It lives: what it was notified of goes to nobody else.
  redis.call('ZADD', k[3], now + lease, id)
end
pass_on(ARGV[6], ARGV[7], ARGV[8])
local turn, came, mark = seat(id)
if turn and (turn > mine or turn == mine and mark == 'l') then
  return {-2}
end
local stands = turn == mine and mark == 'w' and came == field('round') and not redis.call('ZSCORE', k[2], id)
if turn ~= mine then
  if turn then
    redis.call('ZREM', k[2], id)
    if redis.call('ZREM', k[3], id) == 1 then
      give(ARGV[6], ARGV[7], ARGV[8])
    end
  end
  came, mark, stands = field('round'), 'a', ARGV[9] ~= '1'
end
if stands then
  for _ = 1, 16 do
    local first = redis.call('ZRANGE', k[2], 0, 0)[1]
    if not first or not passes_over(first, ARGV[8]) then
      break
    end
  end
  if ARGV[8] == '1' and field('permit') == 1 then
    redis.call('HSET', k[1], 'permit', '0')
    mark = 'n'
    redis.call('ZADD', k[3], now + lease, id)
  else
    mark = 'w'
    redis.call('ZADD', k[2], redis.call('HINCRBY', k[1], 'next', 1), id)
    sweep(4 * redis.call('ZCARD', k[2]) + 64)
  end
end
if mark == 'w' and came < field('round') then
  mark = 'a'
elseif mark == 'n' and ARGV[5] == '1' then
  redis.call('ZREM', k[3], id)
  mark = 'd'
elseif mark == 'n' then
  redis.call('ZADD', k[3], now + lease, id)
end
sit(id, ARGV[3], came, mark, now + lease)
keep(lease)
if mark == 'w' then
  return {0, first_end(k[3])}
end
return {1}
