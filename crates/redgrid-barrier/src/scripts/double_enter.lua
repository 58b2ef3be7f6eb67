-- double_enter.lua: wait to enter a double barrier, continue to wait, or return the session that
-- was entered.
--
-- KEYS     the barrier, waiters, participants inside: see double_barrier.lua
-- ARGV[1]  not after   microseconds since 1970 by this server's clock; later than that, nothing is
--                      done
-- ARGV[2]  id          of the participant
-- ARGV[3]  generation  of the participant
-- ARGV[4]  parties     the number that enters together
-- ARGV[5]  lease       milliseconds; the participant counts that long without renewal
-- ARGV[6]  publish     PUBLISH or SPUBLISH
-- ARGV[7]  channel     for notifications of changes
-- Returns  {1, session}   inside
--          {0, ms}        not yet; the first lease of a participant inside ends after ms, -1 if
--                         there is none
--          {-1}           too late: nothing was done
--          {-2}           this generation has left, or a later one exists
--          {-3, parties}  others use another number of parties
--
-- Work: O(log n), and O(parties) for the call that opens a session. Sent twice, it counts once.
if is_late(ARGV[1]) then
  return {-1}
end
local id, parties, lease = ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
local function is_inside()
  local generation, session, state = participant(id)
  return generation == tonumber(ARGV[3]) and state == 'i' and session
end
local generation, _, state = participant(id)
if generation and (generation > tonumber(ARGV[3]) or generation == tonumber(ARGV[3]) and state == 'l') then
  return {-2}
end
if generation and generation < tonumber(ARGV[3]) then
  redis.call('ZREM', k[2], id)
  redis.call('ZREM', k[3], id)
end
update(ARGV[6], ARGV[7])
if not is_inside() then
  redis.call('ZREM', k[2], id)
  if redis.call('ZCARD', k[2]) + redis.call('ZCARD', k[3]) > 0 and field('parties') ~= parties then
    return {-3, field('parties')}
  end
  redis.call('HSET', k[1], 'parties', parties)
  set_participant(id, ARGV[3], field('session'), 'w', now + lease)
  redis.call('ZADD', k[2], now + lease, id)
  update(ARGV[6], ARGV[7])
end
extend_ttl(lease)
local session = is_inside()
if session then
  return {1, session}
end
return {0, next_change()}
