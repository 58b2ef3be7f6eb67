-- each.lua: runs the same command on the values of several keys of a multimap.
--
-- KEYS     the values of each key, sets or lists; then, if ARGV[1] is `ends`, the expiries, as in
--          key_prelude.lua
-- ARGV[1]  lifetime mode, as in key_prelude.lua
-- ARGV[2]  number of words of the command
-- ARGV[3…] a read command without its key, such as SCARD or LRANGE 0 -1; then, if ARGV[1] is
--          `ends`, each key
-- Returns  for each key the reply of the command, or nil if the key has expired
--
-- Work: that of the command for each key, some hundreds at most; only reads.
local words = tonumber(ARGV[2])
local expiries, now = ARGV[1] == 'ends' and KEYS[#KEYS] or nil, 0
if expiries then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local replies = {}
for i = 1, #KEYS - (expiries and 1 or 0) do
  local expiry = expiries and redis.call('ZSCORE', expiries, ARGV[2 + words + i])
  if expiry and tonumber(expiry) <= now then
    replies[i] = false
  else
    replies[i] = redis.call(ARGV[3], KEYS[i], unpack(ARGV, 4, 2 + words))
  end
end
return replies
