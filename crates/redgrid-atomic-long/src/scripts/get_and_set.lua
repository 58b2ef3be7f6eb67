-- get_and_set.lua: set or delete a number, and return the previous one. Behind dedup.lua or
-- plain.lua, and integers.lua or doubles.lua.
--
-- KEYS[2]  number    string; the number in decimal; absent is 0
-- ARGV[4]  new       empty deletes the number
-- ARGV[5]  any       `1`: replaces any value; otherwise a value that is not a number is refused,
--                    and nothing is done
-- Returns  {existed, previous}   `1` or `0`, and the previous number
--
-- Work: O(1), writes one key.
local previous = ARGV[5] ~= '1' and redis.call('GET', KEYS[2])
local existed = previous and 1 or redis.call('EXISTS', KEYS[2])
if previous and not parse(previous) then
  return redis.error_reply(invalid_error)
end
if ARGV[4] ~= '' then
  redis.call('SET', KEYS[2], ARGV[4])
elseif existed == 1 then
  redis.call('DEL', KEYS[2])
end
return answer({tostring(existed), previous or '0'})
