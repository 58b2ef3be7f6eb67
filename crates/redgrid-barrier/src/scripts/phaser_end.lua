-- phaser_end.lua: end a phaser, or delete one that has ended. Behind dedup.lua: it is executed
-- exactly once.
--
-- KEYS     behind the deduplication key: the phaser, its parties, arrived parties: see phaser.lua
-- ARGV[4]  delete   1: an ended phaser is deleted, so that the name begins anew; 0: the phaser ends
-- ARGV[5]  publish  PUBLISH or SPUBLISH
-- ARGV[6]  channel  for the notification
-- Answers  {1} if this call ended or deleted it, {0} if there was nothing to do
--
-- Work: O(parties).
local has_ended = field('ended') == 1
if has_ended ~= (ARGV[4] == '1') then
  return answer({0})
end
if has_ended then
  -- Its parties, which may still be alive, do not belong to the next run.
  local past = math.max(clock[1] * 1000000 + clock[2], field('run'))
  redis.call('DEL', unpack(k))
  redis.call('HSET', k[1], 'past', string.format('%.0f', past))
else
  redis.call('HSET', k[1], 'ended', '1')
end
extend_ttl(0)
redis.pcall(ARGV[5], ARGV[6], field('phase'))
return answer({1})
