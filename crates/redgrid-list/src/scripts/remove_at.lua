-- remove_at.lua: the element at an index goes.
--
-- KEYS[1]  list
-- ARGV[1]  index, from 0
-- ARGV[2]  a text of chance, for a mark that no element on the way to the index is equal to
-- ARGV[3]  1 where it is to be told what was there
-- Returns  {1, what was there or nothing}; {0, how many there are} where it has no such index
--
-- Work: O(the way from the nearer end), O(1) at the ends. What is at the index is a mark for a moment, and it is put back where the server
-- refuses. Not to be sent twice: another element would go.
local length = redis.call('LLEN', KEYS[1])
local index = tonumber(ARGV[1])
local behind = length - 1 - index
if behind < 0 then
  return {0, length}
end
local was
if index == 0 then
  was = redis.call('LPOP', KEYS[1])
elseif behind == 0 then
  was = redis.call('RPOP', KEYS[1])
else
  local from_front = index <= behind
  local function is_taken(mark)
    if from_front then
      return redis.call('LPOS', KEYS[1], mark, 'MAXLEN', index)
    end
    return redis.call('LPOS', KEYS[1], mark, 'RANK', -1, 'MAXLEN', behind)
  end
  local mark = ARGV[2]
  while is_taken(mark) do
    mark = redis.sha1hex(mark)
  end
  was = redis.call('LINDEX', KEYS[1], index)
  redis.call('LSET', KEYS[1], index, mark)
  local done = redis.pcall('LREM', KEYS[1], from_front and 1 or -1, mark)
  if type(done) == 'table' then
    redis.call('LSET', KEYS[1], index, was)
    return done
  end
end
return {1, ARGV[3] == '1' and was}
