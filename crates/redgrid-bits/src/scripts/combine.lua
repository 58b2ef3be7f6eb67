-- combine.lua: a bit set becomes what it and others make together, and lives as long as it did.
--
-- KEYS[1]     the bit set   string
-- KEYS[2..4]  what is made on the way; gone in the end
-- KEYS[5..]   the others    strings; one at least, but for NOT
-- ARGV[1]     what is made of them: AND, OR, XOR, NOT; DIFF: in it and in none of the others; DIFF1: in one of the others and not in it;
--             ANDOR: in it and in one of the others; ONE: in exactly one of all. The last four are as those of Redis 8.2, and made of the first.
-- Returns     how many bytes it has then
--
-- Work: O(bytes of all of them). The set is replaced by the last write; before that nothing of it is changed. Sent twice, it is made twice.
local own, made, once, both = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local how, others = ARGV[1], {unpack(KEYS, 5)}
local ways = {}
function ways.NOT()
  redis.call('BITOP', 'NOT', made, own)
end
function ways.DIFF()
  redis.call('BITOP', 'OR', made, unpack(others))
  redis.call('BITOP', 'AND', made, own, made)
  redis.call('BITOP', 'XOR', made, own, made)
end
function ways.DIFF1()
  redis.call('BITOP', 'OR', made, unpack(others))
  redis.call('BITOP', 'AND', both, own, made)
  redis.call('BITOP', 'XOR', made, both, made)
end
function ways.ANDOR()
  redis.call('BITOP', 'OR', made, unpack(others))
  redis.call('BITOP', 'AND', made, own, made)
end
function ways.ONE()
  -- `once`: in one of those so far, or more; `made`: in two or more.
  redis.call('BITOP', 'OR', once, own)
  for i, other in ipairs(others) do
    redis.call('BITOP', 'AND', both, once, other)
    redis.call('BITOP', 'OR', made, both, i > 1 and made or both)
    redis.call('BITOP', 'OR', once, once, other)
  end
  redis.call('BITOP', 'XOR', made, once, made)
end
local function plain()
  redis.call('BITOP', how, made, own, unpack(others))
end
local function replace()
  -- Who may not remove what is made is stopped before it is; what was left behind is swept.
  redis.call('DEL', made, once, both)
  local left = redis.call('PTTL', own);
  (ways[how] or plain)()
  local size = redis.call('STRLEN', made)
  redis.call('DEL', once, both)
  if size == 0 then
    redis.call('DEL', own)
    return size
  end
  if left >= 0 then
    redis.call('PEXPIRE', made, math.max(left, 1))
  end
  redis.call('RENAME', made, own)
  return size
end
local done, answer = pcall(replace)
if not done then
  redis.pcall('DEL', made, once, both)
  return type(answer) == 'table' and answer or redis.error_reply(tostring(answer))
end
return answer
