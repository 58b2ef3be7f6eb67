-- double_enter.lua: wait to enter a double barrier, go on waiting, or learn that one is inside.
--
-- KEYS     the barrier, who waits, who is inside: see double_barrier.lua
-- ARGV[1]  not after  microseconds since 1970 by this server's clock; later than that, nothing is done
-- ARGV[2]  id         the seat
-- ARGV[3]  turn       of the seat
-- ARGV[4]  parties    how many enter together
-- ARGV[5]  lease      milliseconds, until which it counts without another word
-- ARGV[6]  publish    PUBLISH or SPUBLISH
-- ARGV[7]  channel    where changes are told
-- Returns  {1, session}   inside
--          {0, ms}        not yet; the lease of the first who is inside ends in so long, -1 where nobody is
--          {-1}           too late: nothing was done
--          {-2}           this turn has left, or another has its seat
--          {-3, parties}  others are there with another number of parties
--
-- Work: O(log n), and O(parties) for who opens. Sent twice, it counts once.
if is_late(ARGV[1]) then
  return {-1}
end
local id, parties, lease = ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
local function is_inside()
  local turn, session, mark = seat(id)
  return turn == tonumber(ARGV[3]) and mark == 'i' and session
end
local turn, _, mark = seat(id)
if turn and (turn > tonumber(ARGV[3]) or turn == tonumber(ARGV[3]) and mark == 'l') then
  return {-2}
end
if turn and turn < tonumber(ARGV[3]) then
  redis.call('ZREM', k[2], id)
  redis.call('ZREM', k[3], id)
end
settle(ARGV[6], ARGV[7])
if not is_inside() then
  redis.call('ZREM', k[2], id)
  if redis.call('ZCARD', k[2]) + redis.call('ZCARD', k[3]) > 0 and field('parties') ~= parties then
    return {-3, field('parties')}
  end
  redis.call('HSET', k[1], 'parties', parties)
  sit(id, ARGV[3], field('session'), 'w', now + lease)
  redis.call('ZADD', k[2], now + lease, id)
  settle(ARGV[6], ARGV[7])
end
keep(lease)
local session = is_inside()
if session then
  return {1, session}
end
return {0, soonest()}
