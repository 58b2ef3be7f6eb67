-- barrier_leave.lua: stop waiting at a barrier.
--
-- KEYS[1]  barrier     hash
-- KEYS[2]  waiting     sorted set
-- ARGV[1]  id          of the participant
-- ARGV[2]  generation  of the participant
-- Returns  {1, round, leader}  too late: the round had opened with this participant
--          {0}                 the participant no longer waits, and late retransmissions do not
--                              make it wait again
--
-- Work: O(log waiting). Sent twice, it leaves once.
local generation, arrived_in, state = participant(ARGV[1])
if generation and generation > tonumber(ARGV[2]) then
  return {0}
end
if generation == tonumber(ARGV[2]) and state ~= 'l' and arrived_in < field('round') then
  extend_ttl(0)
  return {1, arrived_in + 1, state == 'o' and 1 or 0}
end
redis.call('ZREM', k[2], ARGV[1])
set_participant(ARGV[1], ARGV[2], 0, 'l', now)
extend_ttl(0)
return {0}
