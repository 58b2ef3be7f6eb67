-- replace_if.lua: set or delete a number if a comparison holds. Behind dedup.lua or plain.lua, and
-- integers.lua or doubles.lua.
--
-- KEYS[2]  number    string; the number in decimal; absent is 0
-- ARGV[4]  how       `<`, `<=`, `>`, `>=`, `==` or `~=`
-- ARGV[5]  to        the number to compare with
-- ARGV[6]  new       the new number; empty deletes the number
-- Returns  {done}    `1` or `0`; an absent number is not deleted
--
-- Work: O(1), writes one key. A value that is not a number is refused, and nothing is done.
local stored = redis.call('GET', KEYS[2])
local current, to = stored or '0', ARGV[5]
if not parse(current) then
  return redis.error_reply(invalid_error)
end
local below, above = less(current, to), less(to, current)
local holds = {
  ['<'] = below,
  ['<='] = not above,
  ['>'] = above,
  ['>='] = not below,
  ['=='] = not below and not above,
  ['~='] = below or above,
}
if not holds[ARGV[4]] or ARGV[6] == '' and not stored then
  return answer({'0'})
end
if ARGV[6] == '' then
  redis.call('DEL', KEYS[2])
else
  redis.call('SET', KEYS[2], ARGV[6])
end
return answer({'1'})
