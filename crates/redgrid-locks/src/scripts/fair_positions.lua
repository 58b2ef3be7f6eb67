-- fair_positions.lua: return the waiters of a fair lock, in the order of the queue.
--
-- KEYS[1]  queue  list of holders in their order, Redisson's
-- KEYS[2]  alive  sorted set, redgrid's
-- Returns  {holder, own, holder, own, …}; `own` is 1 for a position of redgrid
--
-- Work: O(n) for n positions, writes nothing. Sent twice, it returns twice.
local out = {}
for _, position in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  out[#out + 1] = position
  out[#out + 1] = redis.call('ZSCORE', KEYS[2], position) and '1' or '0'
end
return out
