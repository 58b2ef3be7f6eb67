-- move_whole.lua: renames or copies a multimap. After whole_prelude.lua.
--
-- KEYS[1]  map: a hash
-- KEYS[2]  expiries of its keys: a sorted set
-- KEYS[3]  map of the other name
-- KEYS[4]  expiries of the other name
-- KEYS[5…] the values of the keys, all of them; as many keys under the other name; then the present
--          values of the other name, if it exists
-- ARGV[1]  prefix of the hash in the names of values
-- ARGV[2]  this prefix for the other name
-- ARGV[3]  RENAME or COPY
-- ARGV[4]  1: the other name is replaced
-- ARGV[5]  number of keys of the map
-- Returns  -2: the keys of either map have changed; -1: the map does not exist; 0: the other name
--          is taken; 1: done
--
-- Work: O(keys), 20,000 at most. Not to be sent twice: a renamed map does not exist the second
-- time.
local count = tonumber(ARGV[5])
local first_replaced = 5 + 2 * count
if redis.call('EXISTS', KEYS[1]) == 0 then
  return -1
end
if not has_same_keys(KEYS[1], ARGV[1], 5, 4 + count) then
  return -2
end
if KEYS[1] == KEYS[3] then
  return tonumber(ARGV[4])
end
if redis.call('EXISTS', KEYS[3]) == 1 and ARGV[4] == '0' then
  return 0
end
if not has_same_keys(KEYS[3], ARGV[2], first_replaced, #KEYS) then
  return -2
end
local refusal = check_permitted({{ARGV[3], KEYS[1], KEYS[3]}, {'UNLINK', KEYS[3]}})
if refusal then
  return refusal
end
local function move(from, to)
  if redis.call('EXISTS', from) == 0 then
    redis.call('UNLINK', to)
  elseif ARGV[3] == 'RENAME' then
    redis.call('RENAME', from, to)
  else
    redis.call('COPY', from, to, 'REPLACE')
  end
end
local moved = {}
move(KEYS[1], KEYS[3])
move(KEYS[2], KEYS[4])
for i = 5, 4 + count do
  move(KEYS[i], KEYS[i + count])
  moved[KEYS[i + count]] = true
end
for i = first_replaced, #KEYS do
  if not moved[KEYS[i]] then
    redis.call('UNLINK', KEYS[i])
  end
end
return 1
