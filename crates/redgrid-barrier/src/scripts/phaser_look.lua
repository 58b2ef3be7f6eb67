-- phaser_look.lua: how far a phaser is. The dead are forgotten first.
--
-- KEYS     the phaser, its parties, who has arrived: see phaser.lua
-- ARGV[1]  publish  PUBLISH or SPUBLISH
-- ARGV[2]  channel  where phases are told
-- Returns  {phase, ended, registered, arrived, ms}  the first lease of a party ends in so long, -1 without one
--
-- Work: O(log parties). Sent twice, it answers twice.
settle(ARGV[1], ARGV[2])
return {field('phase'), field('ended'), redis.call('ZCARD', k[2]), redis.call('ZCARD', k[3]), soonest()}
