-- line_one.lua: notify one who waits. Behind once.lua: it acts exactly once.
--
-- KEYS     behind the memory: the hash, the line, who is notified: see line.lua
-- ARGV[4]  publish  PUBLISH or SPUBLISH
-- ARGV[5]  channel  where notifications are told
-- ARGV[6]  stores   1: what nobody waits for is kept for who comes next
-- Answers  {1} if somebody waited, {0} if nobody did
--
-- Work: O(log n), and that for each of the dead in front.
pass_on(ARGV[4], ARGV[5], ARGV[6])
local given = give(ARGV[4], ARGV[5], ARGV[6])
keep(0)
return answer({given})
