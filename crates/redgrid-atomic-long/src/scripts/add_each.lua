-- add_each.lua: add several summands to a number, in order. Behind dedup.lua or plain.lua, and
-- integers.lua or doubles.lua.
--
-- KEYS[2]  number    string; the number in decimal; absent is 0
-- ARGV[4], …         the summands
-- Returns  {before, after, …}   the number before, and after each summand; empty for a summand
--                               that was not added because the sum is out of range
--
-- Work: O(arguments), at most 500 of them; writes one key. If the value is not a number, the first
-- summand is refused.
local numbers, added = {redis.call('GET', KEYS[2]) or '0'}, false
for n = 4, #ARGV do
  local sum = add(ARGV[n])
  if type(sum) ~= 'table' then
    added, numbers[n - 2] = true, sum
  elseif string.find(sum.err, 'would overflow', 1, true) then
    numbers[n - 2] = ''
  elseif added then
    break
  else
    return sum
  end
end
return answer(numbers)
