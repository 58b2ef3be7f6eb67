-- fair_places.lua: who waits for a fair lock, in the order of the queue.
--
-- KEYS[1]  queue  list of holders in their order, Redisson's
-- KEYS[2]  alive  sorted set, ours
-- Returns  {holder, ours, holder, ours, …}; `ours` is 1 for a place of this toolkit
--
-- Work: O(n) for n places, writes nothing. Sent twice, it answers twice.
local out = {}
for _, place in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  out[#out + 1] = place
  out[#out + 1] = redis.call('ZSCORE', KEYS[2], place) and '1' or '0'
end
return out
