-- combine.lua: several sets, plain or sorted, as one.
--
-- KEYS     where the outcome goes, if it goes anywhere; then the sets
-- ARGV[1]  the command, as SUNION or ZINTERSTORE
-- ARGV[2]  1 where the first key is where the outcome goes
-- ARGV[3]  1 where the command takes the number of sets in front of them
-- ARGV[4…] what the command takes behind the sets
-- Returns  what the command does
--
-- Work: that of the command. One that stores may be sent twice only where nobody changes the sets in between.
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
