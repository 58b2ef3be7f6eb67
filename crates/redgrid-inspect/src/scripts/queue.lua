-- queue.lua: return the first waiters of a fair lock, in the order of the queue.
--
-- KEYS[1]  queue  list of future holders in their order, Redisson's
-- KEYS[2]  alive  sorted set, redgrid's; left out while a slot moves
-- ARGV[1]  most   maximum number of waiters
-- Returns  {n, holder, own, holder, own, …}  as text; `n` is the length of the queue; `own` is 1
--                                            for a position of redgrid, '' if unknown; a holder is
--                                            '' if it is too long for one
--
-- Work: O(most), writes nothing. Sent twice, it returns twice.
local out = {tostring(redis.call('LLEN', KEYS[1]))}
for _, position in ipairs(redis.call('LRANGE', KEYS[1], 0, tonumber(ARGV[1]) - 1)) do
  out[#out + 1] = #position <= 80 and position or ''
  out[#out + 1] = not KEYS[2] and '' or redis.call('ZSCORE', KEYS[2], position) and '1' or '0'
end
return out
