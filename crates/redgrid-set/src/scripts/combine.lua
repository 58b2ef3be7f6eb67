-- combine.lua: combines several sets, plain or sorted.
--
-- KEYS     the destination, if there is one; then the sets
-- ARGV[1]  the command, for example SUNION or ZINTERSTORE
-- ARGV[2]  1 if the first key is the destination
-- ARGV[3]  1 if the command expects the number of sets before the sets
-- ARGV[4…] the arguments of the command after the sets
-- Returns  the reply of the command
--
-- Work: that of the command. A command that stores may be sent twice only if no client changes the
-- sets in between.
local call, first = {ARGV[1]}, 1
if ARGV[2] == '1' then
  call[2], first = KEYS[1], 2
end
if ARGV[3] == '1' then
  call[#call + 1] = #KEYS - first + 1
end
for i = first, #KEYS do
  call[#call + 1] = KEYS[i]
end
for i = 4, #ARGV do
  call[#call + 1] = ARGV[i]
end
return redis.call(unpack(call))
