-- phaser_state.lua: the state of a phaser. Expired parties are evicted first.
--
-- KEYS     the phaser, its parties, arrived parties: see phaser.lua
-- ARGV[1]  publish  PUBLISH or SPUBLISH
-- ARGV[2]  channel  for phases
-- Returns  {phase, ended, registered, arrived, ms}  the first lease of a party ends after ms, -1 if
--                                                   there is none
--
-- Work: O(log parties). Sent twice, it answers twice.
update(ARGV[1], ARGV[2])
return {field('phase'), field('ended'), redis.call('ZCARD', k[2]), redis.call('ZCARD', k[3]), next_change()}
