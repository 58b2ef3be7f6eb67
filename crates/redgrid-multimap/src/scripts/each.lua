-- each.lua: the same about the values of several keys of a multimap.
--
-- KEYS     values of a key each, sets or lists; behind them, where ARGV[1] is `ends`, when keys are over, as head.lua has it
-- ARGV[1]  how keys have lifetimes, as head.lua has it
-- ARGV[2]  of how many words the command is
-- ARGV[3…] a command that reads, without its key, as SCARD or LRANGE 0 -1; then, where ARGV[1] is `ends`, each key
-- Returns  of each what the command tells, or nothing where the key is over
--
-- Work: that of the command for each, some hundreds at most; only reads.
local words = tonumber(ARGV[2])
local ends, now = ARGV[1] == 'ends' and KEYS[#KEYS] or nil, 0
if ends then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local told = {}
for i = 1, #KEYS - (ends and 1 or 0) do
  local at = ends and redis.call('ZSCORE', ends, ARGV[2 + words + i])
  if at and tonumber(at) <= now then
    told[i] = false
  else
    told[i] = redis.call(ARGV[3], KEYS[i], unpack(ARGV, 4, 2 + words))
  end
end
return told
