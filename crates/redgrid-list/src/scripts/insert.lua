-- insert.lua: values at an index; what is there and behind it moves on.
--
-- KEYS[1]  list
-- ARGV[1]  index, from 0
-- ARGV[2]  a text of chance, for a mark that nothing here is equal to
-- ARGV[3]  how many elements may be passed, about
-- ARGV[4]… values, 500 at most
-- Returns  {how many of them are in, how many elements there are}; {-1, how many there are} where it is shorter than the index
--
-- Work: O(index) for each value between others, so that there far from the front are fewer; O(1) at the ends. What is at the index is a mark
-- for the time of the script, and it is put back where the server refuses. Not to be sent twice: the values would be in twice.
local length = redis.call('LLEN', KEYS[1])
local index, values = tonumber(ARGV[1]), #ARGV - 3
if index > length then
  return {-1, length}
elseif index == length then
  return {values, redis.call('RPUSH', KEYS[1], unpack(ARGV, 4))}
elseif index == 0 then
  local last_first = {}
  for i = #ARGV, 4, -1 do
    last_first[#last_first + 1] = ARGV[i]
  end
  return {values, redis.call('LPUSH', KEYS[1], unpack(last_first))}
end
values = math.min(values, math.max(1, math.floor(tonumber(ARGV[3]) / index)))
local function is_taken(mark)
  for i = 4, 3 + values do
    if ARGV[i] == mark then
      return true
    end
  end
  return redis.call('LPOS', KEYS[1], mark, 'MAXLEN', index)
end
local mark = ARGV[2]
while is_taken(mark) do
  mark = redis.sha1hex(mark)
end
local was = redis.call('LINDEX', KEYS[1], index)
redis.call('LSET', KEYS[1], index, mark)
for i = 1, values do
  local done = redis.pcall('LINSERT', KEYS[1], 'BEFORE', mark, ARGV[3 + i])
  if type(done) == 'table' then
    redis.call('LSET', KEYS[1], index + i - 1, was)
    return done
  end
end
redis.call('LSET', KEYS[1], index + values, was)
return {values, length + values}
