-- each.lua: the same about the values of several keys of a multimap.
--
-- KEYS     values of a key each, sets or lists
-- ARGV     a command that reads, without its key, as SCARD or LRANGE 0 -1
-- Returns  of each what the command tells
--
-- Work: that of the command for each, some hundreds at most; only reads.
local told = {}
for i = 1, #KEYS do
  told[i] = redis.call(ARGV[1], KEYS[i], unpack(ARGV, 2))
end
return told
