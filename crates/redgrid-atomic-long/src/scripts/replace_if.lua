-- replace_if.lua: set or delete a number if it compares as said. Behind once.lua or plain.lua, and integers.lua or doubles.lua.
--
-- KEYS[2]  number    string; the number in decimal; absent is 0
-- ARGV[4]  how       `<`, `<=`, `>`, `>=`, `==` or `~=`
-- ARGV[5]  to        what it is compared to
-- ARGV[6]  new       what it is then; empty deletes it
-- Returns  {done}    `1` or `0`; an absent number is not deleted
--
-- Work: O(1), writes one key. What is no number is refused, and nothing is done.
local there = redis.call('GET', KEYS[2])
local was, to = there or '0', ARGV[5]
if not valid(was) then
  return redis.error_reply(refusal)
end
local below, above = less(was, to), less(to, was)
local holds = {
  ['<'] = below,
  ['<='] = not above,
  ['>'] = above,
  ['>='] = not below,
  ['=='] = not below and not above,
  ['~='] = below or above,
}
if not holds[ARGV[4]] or ARGV[6] == '' and not there then
  return answer({'0'})
end
if ARGV[6] == '' then
  redis.call('DEL', KEYS[2])
else
  redis.call('SET', KEYS[2], ARGV[6])
end
return answer({'1'})
