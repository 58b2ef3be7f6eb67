-- phaser_end.lua: end a phaser, or forget one that has ended.
--
-- KEYS     the phaser, its parties, who has arrived: see phaser.lua
-- ARGV[1]  forget   1: what has ended is forgotten, so that the name begins anew; 0: it ends
-- ARGV[2]  publish  PUBLISH or SPUBLISH
-- ARGV[3]  channel  where that is told
-- Returns  1 if that was done by this call, 0 if there was nothing to do
--
-- Work: O(parties). Sent twice, it ends once.
if ARGV[1] == '1' then
  if field('ended') == 0 then
    return 0
  end
  return redis.call('DEL', unpack(k)) > 0 and 1 or 0
end
if field('ended') == 1 then
  return 0
end
redis.call('HSET', k[1], 'ended', '1', 'began', '1')
keep(0)
redis.call(ARGV[2], ARGV[3], field('phase'))
return 1
