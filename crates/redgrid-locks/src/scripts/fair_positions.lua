-- fair_positions.lua: return the first waiters of a fair lock, in the order of the queue.
--
-- KEYS[1]  queue     list of holders in their order, Redisson's
-- KEYS[2]  alive     sorted set, redgrid's
-- ARGV[1]  most      maximum number of waiters to return
-- ARGV[2]  position  holder to search for in the whole queue; '' for none
-- Returns  {n, index, holder, own, holder, own, …}  as text; `n` is the length of the queue;
--                    `index` is that of the position, from 0, or '' without it; `own` is 1 for a
--                    position of redgrid
--
-- Work: O(most); O(n) for n positions with a position to search for. Writes nothing. Sent twice, it
-- returns twice.
local n, most = redis.call('LLEN', KEYS[1]), tonumber(ARGV[1])
local out = {tostring(n), ''}
for _, position in ipairs(most > 0 and redis.call('LRANGE', KEYS[1], 0, most - 1) or {}) do
  out[#out + 1] = position
  out[#out + 1] = redis.call('ZSCORE', KEYS[2], position) and '1' or '0'
end
for first = 0, ARGV[2] ~= '' and n - 1 or -1, 1000 do
  for at, position in ipairs(redis.call('LRANGE', KEYS[1], first, first + 999)) do
    if position == ARGV[2] then
      out[2] = tostring(first + at - 1)
      return out
    end
  end
end
return out
