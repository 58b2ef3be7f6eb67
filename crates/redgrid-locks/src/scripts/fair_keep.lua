-- fair_keep.lua: keep the places of one process in the queue of a fair lock, throw out the dead, and see who is next.
--
-- KEYS[1]  lock       hash; one field, the holder; absent when free
-- KEYS[2]  queue      list of holders in their order, Redisson's
-- KEYS[3]  scores     sorted set, Redisson's
-- KEYS[4]  alive      sorted set, ours: until when its process keeps a place
-- ARGV[1]  wait       what a place is worth, milliseconds
-- ARGV[2]  kept       how long the places are kept without another word, milliseconds
-- ARGV[3]  all        1: look at the scores of all places of ours, too
-- ARGV[4]  publish    PUBLISH or SPUBLISH
-- ARGV[5]  channel    where places are told, up to the holder
-- ARGV[6…] holders    the places
-- Returns  {time, left, first, kept, kept, …}  `left` is the lock's PTTL, -2 when free; `first` says which of the places is the
--          head, 0 when none is; and for each place 1, or 0 when it is not in the queue (any more)
--
-- Work: O(places of the process), and O(n) for n places of the queue when somebody is thrown out or `all` is asked for.
-- Sent twice, it keeps twice; it never makes a place.
local k, wait, ends = KEYS, tonumber(ARGV[1]), now + tonumber(ARGV[2])
local out = {}
-- Servers refuse for want of memory only a script's first write.
redis.call('ZREM', k[4], '')
forgive(k, tonumber(ARGV[2]))
for i = 6, #ARGV do
  local is_there = redis.call('ZSCORE', k[3], ARGV[i])
  if is_there then
    redis.call('ZADD', k[4], ends, ARGV[i])
  end
  out[i - 5] = is_there and 1 or 0
end
if ARGV[3] == '1' or is_untidy(k) then
  pass(k, wait, {}, ARGV[3] == '1')
elseif redis.call('PTTL', k[2]) > 0 and not is_ours(k) then
  -- One of Redisson's has come, which gives the queue no lifetime, and takes none from it.
  set_lifetimes(k, wait)
end
local head, left = redis.call('LINDEX', k[2], 0), redis.call('PTTL', k[1])
local first = 0
for i = 6, #ARGV do
  if ARGV[i] == head then
    first = i - 5
  end
end
if left == -2 and first == 0 then
  -- Told by a release before, most likely; or nobody told it, as the head was thrown out, or the message was lost.
  tell_head(k, ARGV[4], ARGV[5])
end
return {time, left, first, unpack(out)}
