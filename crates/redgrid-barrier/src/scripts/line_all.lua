-- line_all.lua: notify all who wait. Behind once.lua: it acts exactly once.
--
-- KEYS     behind the memory: the hash, the line, who is notified: see line.lua
-- ARGV[4]  publish  PUBLISH or SPUBLISH
-- ARGV[5]  channel  where notifications are told
-- Answers  {count}  so many stood in line
--
-- Work: O(n) for n who wait, at once.
local count = redis.call('ZCARD', k[2])
if count > 0 then
  redis.call('HINCRBY', k[1], 'round', 1)
  redis.call('DEL', k[2])
  redis.pcall(ARGV[4], ARGV[5], '0')
end
keep(0)
return answer({count})
