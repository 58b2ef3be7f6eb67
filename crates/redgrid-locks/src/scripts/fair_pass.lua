-- fair_pass.lua: go on holding a fair lock for the next places of one process: those it has served go out, its new waiters line up.
--
-- KEYS[1]  lock       hash; one field, the holder; absent when free
-- KEYS[2]  queue      list of holders in their order, Redisson's
-- KEYS[3]  scores     sorted set, Redisson's
-- KEYS[4]  alive      sorted set, ours: until when its process keeps a place
-- ARGV[1]  holder     `<client id>:<number>`, as are the places of its process
-- ARGV[2]  not after  microseconds since 1970 by this server's clock; later than that, nothing is done
-- ARGV[3]  wait       what a place is worth, milliseconds
-- ARGV[4]  kept       how long a place that is new, or answered, is kept without another word, milliseconds
-- ARGV[5]  give back  0: not at all; 1: nobody of the process is inside, and it is unless a place of its own is next; 2: in any case
-- ARGV[6]  publish    PUBLISH or SPUBLISH
-- ARGV[7]  channel    where places are told, up to the holder
-- ARGV[8]  served     how many of the following were served inside the process; the others line up, in their order
-- ARGV[9…] places
-- Returns  {1, time, number, …}  held, with the numbers of the places of this process that are next, up to the first of another
--          {0, time}             not this holder's; places that were to line up are in the queue all the same
--          {3, time}             given back, and the next told
--          {-1, time}            too late
--
-- Work: O(n) for n places that are few, or not all ours; O(served + new) of others. Sent twice, it takes out once, and nobody has two
-- places; one that gives back does so again if the lock was not given back by the first.
if tonumber(time) > tonumber(ARGV[2]) then
  return {-1, time}
end
local k, holder, wait, ends = KEYS, ARGV[1], tonumber(ARGV[3]), now + tonumber(ARGV[4])
-- The answer tells of no more: what a process serves in one go.
local MOST = 64
local held = redis.call('HEXISTS', k[1], holder)
forgive(k, tonumber(ARGV[4]))
local last_served = 8 + tonumber(ARGV[8])
local served, line, scores, alive = {}, {}, {}, {}
for i = 9, last_served do
  served[#served + 1] = ARGV[i]
end
local score
for i = last_served + 1, #ARGV do
  local place = ARGV[i]
  if not redis.call('ZSCORE', k[3], place) then
    if not score then
      local last = redis.call('LINDEX', k[2], -1)
      score = last and redis.call('ZSCORE', k[3], last) or now + math.max(redis.call('PTTL', k[1]), 0)
    end
    score = score + wait
    line[#line + 1] = place
    scores[#scores + 1] = score
    scores[#scores + 1] = place
  end
  alive[#alive + 1] = ends
  alive[#alive + 1] = place
end
many('RPUSH', k[2], line)
many('ZADD', k[3], scores)
many('ZADD', k[4], alive)
if #served > 0 or #line > 0 or is_untidy(k) then
  pass(k, wait, served)
end
if held == 0 then
  if redis.call('EXISTS', k[1]) == 0 then
    -- Whoever gave it back may have told one who is out now.
    tell_head(k, ARGV[6], ARGV[7])
  end
  return {0, time}
end
local out, kept = {1, time}, {}
local own = string.match(holder, '^.*:')
for _, place in ipairs(redis.call('LRANGE', k[2], 0, MOST - 1)) do
  if string.sub(place, 1, #own) ~= own then
    break
  end
  out[#out + 1] = string.sub(place, #own + 1)
  kept[#kept + 1] = ends
  kept[#kept + 1] = place
end
-- Nobody is to throw them out while the answer is believed.
many('ZADD', k[4], kept)
if ARGV[5] == '2' or (ARGV[5] == '1' and #out == 2) then
  redis.call('HDEL', k[1], holder)
  tell_head(k, ARGV[6], ARGV[7])
  return {3, time}
end
return out
