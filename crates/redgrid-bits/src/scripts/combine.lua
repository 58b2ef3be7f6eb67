-- combine.lua: replaces a bit set by the result of a bitwise operation on it and others. The set
-- keeps its TTL.
--
-- KEYS[1]     the bit set   string
-- KEYS[2..4]  temporary results; deleted at the end
-- KEYS[5..]   the others    strings; at least one, except for NOT
-- ARGV[1]     the operation: AND, OR, XOR, NOT; DIFF: bits in the set and in none of the others;
--             DIFF1: bits in any of the others and not in the set; ANDOR: bits in the set and in
--             any of the others; ONE: bits in exactly one of all. The last four are operations of
--             Redis 8.2, composed of the first four.
-- Returns     the new size in bytes
--
-- Work: O(bytes of all of them). The set is unchanged until the last write, which replaces it. Sent
-- twice, the operation is applied twice.
local own, result, once, both = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local operation, others = ARGV[1], {unpack(KEYS, 5)}
local composed = {}
function composed.NOT()
  redis.call('BITOP', 'NOT', result, own)
end
function composed.DIFF()
  redis.call('BITOP', 'OR', result, unpack(others))
  redis.call('BITOP', 'AND', result, own, result)
  redis.call('BITOP', 'XOR', result, own, result)
end
function composed.DIFF1()
  redis.call('BITOP', 'OR', result, unpack(others))
  redis.call('BITOP', 'AND', both, own, result)
  redis.call('BITOP', 'XOR', result, both, result)
end
function composed.ANDOR()
  redis.call('BITOP', 'OR', result, unpack(others))
  redis.call('BITOP', 'AND', result, own, result)
end
function composed.ONE()
  -- `once`: bits in at least one of the sets so far; `result`: bits in at least two.
  redis.call('BITOP', 'OR', once, own)
  for i, other in ipairs(others) do
    redis.call('BITOP', 'AND', both, once, other)
    redis.call('BITOP', 'OR', result, both, i > 1 and result or both)
    redis.call('BITOP', 'OR', once, once, other)
  end
  redis.call('BITOP', 'XOR', result, once, result)
end
local function simple()
  redis.call('BITOP', operation, result, own, unpack(others))
end
local function replace()
  -- A user without the permission to delete the temporary results is refused before they exist.
  -- Also deletes the results of an earlier failure.
  redis.call('DEL', result, once, both)
  local ttl = redis.call('PTTL', own);
  (composed[operation] or simple)()
  local size = redis.call('STRLEN', result)
  redis.call('DEL', once, both)
  if size == 0 then
    redis.call('DEL', own)
    return size
  end
  if ttl >= 0 then
    redis.call('PEXPIRE', result, math.max(ttl, 1))
  end
  redis.call('RENAME', result, own)
  return size
end
local ok, reply = pcall(replace)
if not ok then
  redis.pcall('DEL', result, once, both)
  return type(reply) == 'table' and reply or redis.error_reply(tostring(reply))
end
return reply
