-- get_and_set.lua: set or delete a number and tell what it was. Behind once.lua or plain.lua, and integers.lua or doubles.lua.
--
-- KEYS[2]  number    string; the number in decimal; absent is 0
-- ARGV[4]  new       empty deletes it
-- ARGV[5]  any       `1`: whatever is there; else what is no number is refused, and nothing is done
-- Returns  {there, was}   `1` or `0`, and the number as it was
--
-- Work: O(1), writes one key.
local was = ARGV[5] ~= '1' and redis.call('GET', KEYS[2])
local there = was and 1 or redis.call('EXISTS', KEYS[2])
if was and not valid(was) then
  return redis.error_reply(refusal)
end
if ARGV[4] ~= '' then
  redis.call('SET', KEYS[2], ARGV[4])
elseif there == 1 then
  redis.call('DEL', KEYS[2])
end
return answer({tostring(there), was or '0'})
