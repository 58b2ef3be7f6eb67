-- barrier_arrive.lua: wait at a barrier, continue to wait, or return that it has opened. The last
-- party to arrive opens it.
--
-- KEYS[1]  barrier     hash; `round` counts the openings, `parties` is the number that each needs.
--                      A participant's value is the round in which it arrived; its state is `w`
--                      (waits), `o` (opened the round, and no longer waits) or `l` (has left)
-- KEYS[2]  waiting     sorted set; waiters, by the end of the lease
-- ARGV[1]  not after   microseconds since 1970 by this server's clock; later than that, nothing is
--                      done
-- ARGV[2]  id          of the participant
-- ARGV[3]  generation  of the participant
-- ARGV[4]  parties     the number that opens the barrier
-- ARGV[5]  lease       milliseconds; the participant counts that long without renewal
-- ARGV[6]  seen        the last round that the client saw open; a failover may have lost it. It is
--                      0 unless that was recently, because older rounds may have expired here
-- ARGV[7]  publish     PUBLISH or SPUBLISH
-- ARGV[8]  channel     for the number of an opened round
-- Returns  {1, round, leader}      the round has opened with this participant; leader is 1 for the
--                                  last one to arrive
--          {0, waiting, ms}        this many wait; the first of their leases ends after ms
--          {-1}                    too late: nothing was done
--          {-2}                    this generation has left, or a later one exists
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
local generation, arrived_in, state = participant(id)
if generation and (generation > tonumber(ARGV[3]) or generation == tonumber(ARGV[3]) and state == 'l') then
  return {-2}
end
if generation == tonumber(ARGV[3]) and arrived_in < round then
  -- The client stores the round from now on, so this server must store it at least as long.
  extend_ttl(lease)
  return {1, arrived_in + 1, state == 'o' and 1 or 0}
end
evict_expired(k[2])
redis.call('ZREM', k[2], id)
local parties, waiting = tonumber(ARGV[4]), redis.call('ZCARD', k[2])
if waiting > 0 and field('parties') ~= parties then
  return {-3, field('parties')}
end
redis.call('HSET', k[1], 'parties', parties)
if waiting + 1 < parties then
  set_participant(id, ARGV[3], round, 'w', now + lease)
  redis.call('ZADD', k[2], now + lease, id)
  extend_ttl(lease)
  return {0, waiting + 1, next_lease_end(k[2])}
end
set_participant(id, ARGV[3], round, 'o', now + lease)
redis.call('HSET', k[1], 'round', round + 1)
redis.call('DEL', k[2])
purge(4 * parties + 64)
extend_ttl(lease)
redis.pcall(ARGV[7], ARGV[8], round + 1)
return {1, round + 1, 1}
