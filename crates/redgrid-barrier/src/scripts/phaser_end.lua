-- phaser_end.lua: end a phaser, or forget one that has ended. Behind once.lua: it acts exactly once.
--
-- KEYS     behind the memory: the phaser, its parties, who has arrived: see phaser.lua
-- ARGV[4]  forget   1: what has ended is forgotten, so that the name begins anew; 0: it ends
-- ARGV[5]  publish  PUBLISH or SPUBLISH
-- ARGV[6]  channel  where that is told
-- Answers  {1} if that was done by this call, {0} if there was nothing to do
--
-- Work: O(parties).
local has_ended = field('ended') == 1
if has_ended ~= (ARGV[4] == '1') then
  return answer({0})
end
if has_ended then
  -- Its parties, which may live on, are not of the next run.
  local past = math.max(clock[1] * 1000000 + clock[2], field('run'))
  redis.call('DEL', unpack(k))
  redis.call('HSET', k[1], 'past', string.format('%.0f', past))
else
  redis.call('HSET', k[1], 'ended', '1')
end
keep(0)
redis.pcall(ARGV[5], ARGV[6], field('phase'))
return answer({1})
