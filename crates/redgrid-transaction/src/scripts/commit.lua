-- commit.lua: looks whether all is as a transaction has read it, and then writes what it writes.
--
-- KEYS[2]…    the objects, in the order of their kinds; behind them the locks of other transactions that must be free
-- ARGV[4]     how many objects there are
-- ARGV[5]…    the kind of each: string, hash or set
-- then, one after another, each behind the number of its object:
--   same number element value   the element has this value; of a set it is in it
--   none number element         there is no such element
--   size number count           there are so many elements
--   most number count           there are so many elements at most
--   set number value options… . a value for a string, with options of SET, as many as the argument in front of them says
--   put number element value    an element
--   rem number element          no such element
--   rest number                 no element but those that were put; without a lifetime
--   del number                  nothing at all
-- Looks come before writes, and what takes an element away comes behind what puts one. What is to be taken away and is not there is left out: so no
-- command comes behind the one with which a key is gone, which a slot that moves would have another node asked for, half way.
-- Returns  {'done'}
--          {'locked', n}        by a transaction that has the nth of the locks: nothing is written
--          {'kind', n, what}    the nth object is of this kind: nothing is written
--          {'changed', n}       the nth object is not as it was read: nothing is written
--          {'large', n, count}  the nth object has so many elements: nothing is written
--
-- Work: O(1) and the sizes for each look and each write, whose number the caller bounds; `rest` as many as `most` lets through. Acts once.
local objects = tonumber(ARGV[4])
for at = objects + 2, #KEYS do
  if redis.call('EXISTS', KEYS[at]) == 1 then
    return answer({'locked', tostring(at - objects - 1)})
  end
end
for number = 1, objects do
  local kind = redis.call('TYPE', KEYS[number + 1]).ok
  if kind ~= 'none' and kind ~= ARGV[4 + number] then
    return answer({'kind', tostring(number), kind})
  end
end

local SIZE = {hash = 'HLEN', set = 'SCARD', string = 'EXISTS'}
local at = 5 + objects
while at <= #ARGV do
  local op, number = ARGV[at], tonumber(ARGV[at + 1])
  local key, kind = KEYS[number + 1], ARGV[4 + number]
  if op == 'same' or op == 'none' then
    local element, has = ARGV[at + 2], nil
    if kind == 'string' then
      has = redis.call('GET', key)
    elseif kind == 'hash' then
      has = redis.call('HGET', key, element)
    else
      has = redis.call('SISMEMBER', key, element) == 1 and ''
    end
    local wanted = op == 'same' and ARGV[at + 3]
    if has ~= wanted then
      return answer({'changed', tostring(number)})
    end
    at = at + (op == 'same' and 4 or 3)
  elseif op == 'size' or op == 'most' then
    local count, said = redis.call(SIZE[kind], key), tonumber(ARGV[at + 2])
    if op == 'size' and count ~= said then
      return answer({'changed', tostring(number)})
    end
    if op == 'most' and count > said then
      return answer({'large', tostring(number), tostring(count)})
    end
    at = at + 3
  else
    break
  end
end

-- What each write is, and whether the user may do all of it, before the first is done.
local writes, put, may = {}, {}, {}
local function write(...)
  local command, key = select(1, ...), select(2, ...)
  local what = command .. ' ' .. key
  if redis.acl_check_cmd and not may[what] then
    if not redis.acl_check_cmd(...) then
      return false
    end
    may[what] = true
  end
  writes[#writes + 1] = {...}
  return true
end
local ADD, REMOVE, ALL = {hash = 'HSET', set = 'SADD'}, {hash = 'HDEL', set = 'SREM'}, {hash = 'HKEYS', set = 'SMEMBERS'}
local IS_IN = {hash = 'HEXISTS', set = 'SISMEMBER'}
local may_all = at > #ARGV or write('SET', KEYS[1], ARGV[2])
writes = {}
while at <= #ARGV and may_all do
  local op, number = ARGV[at], tonumber(ARGV[at + 1])
  local key, kind = KEYS[number + 1], ARGV[4 + number]
  if op == 'set' then
    local options = tonumber(ARGV[at + 3])
    may_all = write('SET', key, ARGV[at + 2], unpack(ARGV, at + 4, at + 3 + options))
    at = at + 4 + options
  elseif op == 'put' then
    put[key] = put[key] or {}
    put[key][ARGV[at + 2]] = true
    if kind == 'hash' then
      may_all = write('HSET', key, ARGV[at + 2], ARGV[at + 3])
    else
      may_all = write('SADD', key, ARGV[at + 2])
    end
    at = at + 4
  elseif op == 'rem' then
    if redis.call(IS_IN[kind], key, ARGV[at + 2]) == 1 then
      may_all = write(REMOVE[kind], key, ARGV[at + 2])
    end
    at = at + 3
  elseif op == 'rest' then
    for _, element in ipairs(redis.call(ALL[kind], key)) do
      may_all = may_all and ((put[key] and put[key][element]) or write(REMOVE[kind], key, element))
    end
    may_all = may_all and write('PERSIST', key)
    at = at + 2
  else
    may_all = write('UNLINK', key)
    at = at + 2
  end
end
if not may_all then
  return redis.error_reply("NOPERM this user has no permissions to run a command of this transaction's, or to access a key of it")
end
for _, one in ipairs(writes) do
  redis.call(unpack(one))
end
return answer({'done'})
