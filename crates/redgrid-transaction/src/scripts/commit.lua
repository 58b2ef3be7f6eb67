-- commit.lua: compares the values that a transaction has read, and then executes its writes.
--
-- KEYS[2]…    the objects, in the order of their types; then the locks of other transactions that
--             must not exist
-- ARGV[4]     the number of objects
-- ARGV[5]…    the type of each object: string, hash or set
-- then operations, each with the number of its object; first the checks:
--   same number element value    the element has this value; for a set, it is a member
--   none number element          the element does not exist
--   size number count            the object has this number of elements
--   most number count            the object has at most this number of elements
-- then the writes:
--   set number value count options…  set a string, with this number of options of SET
--   put number element value     set an element
--   rem number element           remove an element
--   rest number                  remove all elements that no `put` has set, and the lifetime
--   del number                   delete the object
-- Checks precede writes, and additions precede removals. The removal of an absent element is left
-- out. So the command that deletes a key is the last one for this key. Otherwise, while a slot
-- migrates, a later command would be redirected to the other node, in the middle of the script.
-- Returns  {'done'}
--          {'locked', n}        a transaction holds the nth lock: nothing is written
--          {'kind', n, type}    the nth object has this type: nothing is written
--          {'changed', n}       the nth object has changed since it was read: nothing is written
--          {'large', n, count}  the nth object has this number of elements: nothing is written
--
-- Work: O(1) and the size of the value for each check and each write. The caller limits their
-- number; `most` limits `rest`. Appended to dedup.lua: it is executed exactly once.
local objects = tonumber(ARGV[4])
for index = objects + 2, #KEYS do
  if redis.call('EXISTS', KEYS[index]) == 1 then
    return answer({'locked', tostring(index - objects - 1)})
  end
end
for number = 1, objects do
  local object_type = redis.call('TYPE', KEYS[number + 1]).ok
  if object_type ~= 'none' and object_type ~= ARGV[4 + number] then
    return answer({'kind', tostring(number), object_type})
  end
end

local SIZE = {hash = 'HLEN', set = 'SCARD', string = 'EXISTS'}
local index = 5 + objects
while index <= #ARGV do
  local op, number = ARGV[index], tonumber(ARGV[index + 1])
  local key, object_type = KEYS[number + 1], ARGV[4 + number]
  if op == 'same' or op == 'none' then
    local element, actual = ARGV[index + 2], nil
    if object_type == 'string' then
      actual = redis.call('GET', key)
    elseif object_type == 'hash' then
      actual = redis.call('HGET', key, element)
    else
      actual = redis.call('SISMEMBER', key, element) == 1 and ''
    end
    local expected = op == 'same' and ARGV[index + 3]
    if actual ~= expected then
      return answer({'changed', tostring(number)})
    end
    index = index + (op == 'same' and 4 or 3)
  elseif op == 'size' or op == 'most' then
    local count, operand = redis.call(SIZE[object_type], key), tonumber(ARGV[index + 2])
    if op == 'size' and count ~= operand then
      return answer({'changed', tostring(number)})
    end
    if op == 'most' and count > operand then
      return answer({'large', tostring(number), tostring(count)})
    end
    index = index + 3
  else
    break
  end
end

-- Collects all writes. Before the first write, checks that the user may execute all of them.
local writes, put_elements, permitted = {}, {}, {}
local function write(...)
  local command, key = select(1, ...), select(2, ...)
  local command_and_key = command .. ' ' .. key
  if redis.acl_check_cmd and not permitted[command_and_key] then
    if not redis.acl_check_cmd(...) then
      return false
    end
    permitted[command_and_key] = true
  end
  writes[#writes + 1] = {...}
  return true
end
local ADD, REMOVE, ALL = {hash = 'HSET', set = 'SADD'}, {hash = 'HDEL', set = 'SREM'}, {hash = 'HKEYS', set = 'SMEMBERS'}
local EXISTS = {hash = 'HEXISTS', set = 'SISMEMBER'}
local all_permitted = index > #ARGV or write('SET', KEYS[1], ARGV[2])
writes = {}
while index <= #ARGV and all_permitted do
  local op, number = ARGV[index], tonumber(ARGV[index + 1])
  local key, object_type = KEYS[number + 1], ARGV[4 + number]
  if op == 'set' then
    local options = tonumber(ARGV[index + 3])
    all_permitted = write('SET', key, ARGV[index + 2], unpack(ARGV, index + 4, index + 3 + options))
    index = index + 4 + options
  elseif op == 'put' then
    put_elements[key] = put_elements[key] or {}
    put_elements[key][ARGV[index + 2]] = true
    if object_type == 'hash' then
      all_permitted = write('HSET', key, ARGV[index + 2], ARGV[index + 3])
    else
      all_permitted = write('SADD', key, ARGV[index + 2])
    end
    index = index + 4
  elseif op == 'rem' then
    if redis.call(EXISTS[object_type], key, ARGV[index + 2]) == 1 then
      all_permitted = write(REMOVE[object_type], key, ARGV[index + 2])
    end
    index = index + 3
  elseif op == 'rest' then
    for _, element in ipairs(redis.call(ALL[object_type], key)) do
      all_permitted = all_permitted and ((put_elements[key] and put_elements[key][element]) or write(REMOVE[object_type], key, element))
    end
    all_permitted = all_permitted and write('PERSIST', key)
    index = index + 2
  else
    all_permitted = write('UNLINK', key)
    index = index + 2
  end
end
if not all_permitted then
  return redis.error_reply("NOPERM this user has no permissions to run a command of this transaction's, or to access a key of it")
end
for _, command in ipairs(writes) do
  redis.call(unpack(command))
end
return answer({'done'})
