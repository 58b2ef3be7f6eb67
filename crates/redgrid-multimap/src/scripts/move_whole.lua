-- move_whole.lua: another name for a multimap, or a second one like it. Behind same.lua.
--
-- KEYS[1]  map, a hash
-- KEYS[2]  ends of its keys' lifetimes, a sorted set
-- KEYS[3]  map of the other name
-- KEYS[4]  its ends
-- KEYS[5…] the values of the keys, all of them; as many of the other name; then those that the other name has, if it has any
-- ARGV[1]  what is in front of a hash in the name of values
-- ARGV[2]  the same of the other name
-- ARGV[3]  RENAME or COPY
-- ARGV[4]  1 where what has the other name is replaced
-- ARGV[5]  how many keys the map has
-- Returns  -2 the keys of the one or the other are others meanwhile, -1 it is not there, 0 the other name is taken, 1 done
--
-- Work: O(keys), 20,000 at most. Not to be sent twice: what is renamed is not there the second time.
local count = tonumber(ARGV[5])
local others = 5 + 2 * count
if redis.call('EXISTS', KEYS[1]) == 0 then
  return -1
end
if not same(KEYS[1], ARGV[1], 5, 4 + count) then
  return -2
end
if KEYS[1] == KEYS[3] then
  return tonumber(ARGV[4])
end
if redis.call('EXISTS', KEYS[3]) == 1 and ARGV[4] == '0' then
  return 0
end
if not same(KEYS[3], ARGV[2], others, #KEYS) then
  return -2
end
local wrong = refused({{ARGV[3], KEYS[1], KEYS[3]}, {'UNLINK', KEYS[3]}})
if wrong then
  return wrong
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
local new = {}
move(KEYS[1], KEYS[3])
move(KEYS[2], KEYS[4])
for i = 5, 4 + count do
  move(KEYS[i], KEYS[i + count])
  new[KEYS[i + count]] = true
end
for i = others, #KEYS do
  if not new[KEYS[i]] then
    redis.call('UNLINK', KEYS[i])
  end
end
return 1
