-- barrier_arrive.lua: wait at a barrier, go on waiting, or learn that it has opened. Whoever makes the parties complete opens it.
--
-- KEYS[1]  barrier    hash; `round` counts the openings, `parties` how many each needs; a seat's number is the round in which it came,
--                     its mark `w` (waits), `o` (waits no more: it opened the round) or `l` (has left)
-- KEYS[2]  waiting    sorted set; who waits, by the end of the lease
-- ARGV[1]  not after  microseconds since 1970 by this server's clock; later than that, nothing is done
-- ARGV[2]  id         the seat
-- ARGV[3]  turn       of the seat
-- ARGV[4]  parties    how many open it
-- ARGV[5]  lease      milliseconds, until which it counts without another word
-- ARGV[6]  seen       the last round that its client saw open, if it was told of it a short while ago: a failover may have lost that.
--                     What is older may be forgotten here with all else, and 0 is said
-- ARGV[7]  publish    PUBLISH or SPUBLISH
-- ARGV[8]  channel    where the number of a round is told that has opened
-- Returns  {1, round, leader}      the round has opened, with this one in it; leader is 1 for the one who came last
--          {0, waiting, ms}        so many wait, and the first of their leases ends in so long
--          {-1}                    too late: nothing was done
--          {-2}                    this turn has left, or another has its seat
--          {-3, parties}           others wait for another number of parties
--
-- Work: O(log waiting). Sent twice, it counts once.
if is_late(ARGV[1]) then
  return {-1}
end
local id, lease, round = ARGV[2], tonumber(ARGV[5]), field('round')
if tonumber(ARGV[6]) > round then
  round = tonumber(ARGV[6])
  redis.call('HSET', k[1], 'round', round)
  redis.call('DEL', k[2])
  redis.pcall(ARGV[7], ARGV[8], round)
end
local turn, came, mark = seat(id)
if turn and (turn > tonumber(ARGV[3]) or turn == tonumber(ARGV[3]) and mark == 'l') then
  return {-2}
end
if turn == tonumber(ARGV[3]) and came < round then
  -- It believes the round from now on, for as long as this keeps it.
  keep(lease)
  return {1, came + 1, mark == 'o' and 1 or 0}
end
bury(k[2])
redis.call('ZREM', k[2], id)
local parties, waiting = tonumber(ARGV[4]), redis.call('ZCARD', k[2])
if waiting > 0 and field('parties') ~= parties then
  return {-3, field('parties')}
end
redis.call('HSET', k[1], 'parties', parties)
if waiting + 1 < parties then
  sit(id, ARGV[3], round, 'w', now + lease)
  redis.call('ZADD', k[2], now + lease, id)
  keep(lease)
  return {0, waiting + 1, first_end(k[2])}
end
sit(id, ARGV[3], round, 'o', now + lease)
redis.call('HSET', k[1], 'round', round + 1)
redis.call('DEL', k[2])
sweep(4 * parties + 64)
keep(lease)
redis.pcall(ARGV[7], ARGV[8], round + 1)
return {1, round + 1, 1}
