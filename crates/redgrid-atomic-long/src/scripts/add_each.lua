-- add_each.lua: add several numbers to a number, one after the other. Behind once.lua or plain.lua, and integers.lua or doubles.lua.
--
-- KEYS[2]  number    string; the number in decimal; absent is 0
-- ARGV[4], …         what is added
-- Returns  {was, now, …}   the number before, and after each; empty where that sum was beyond all numbers and was not added
--
-- Work: O(arguments), of which the caller sends no more than 500; writes one key. A number it can not add to is refused at the first.
local numbers, added = {redis.call('GET', KEYS[2]) or '0'}, false
for n = 4, #ARGV do
  local now = increased(ARGV[n])
  if type(now) ~= 'table' then
    added, numbers[n - 2] = true, now
  elseif string.find(now.err, 'would overflow', 1, true) then
    numbers[n - 2] = ''
  elseif added then
    break
  else
    return now
  end
end
return answer(numbers)
