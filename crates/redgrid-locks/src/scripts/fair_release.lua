-- fair_release.lua: release fair locks, or positions in their queues, and notify the next
-- positions.
--
-- KEYS[4i - 3]  lock     hash; one field, the holder
-- KEYS[4i - 2]  queue    list of holders in their order, Redisson's
-- KEYS[4i - 1]  scores   sorted set, Redisson's
-- KEYS[4i]      alive    sorted set, redgrid's
-- ARGV[1]       publish  PUBLISH or SPUBLISH
-- ARGV[4i - 2]  holder
-- ARGV[4i - 1]  keep     how long the lock stays taken by the field `<holder>:kept`, milliseconds;
--                        0 frees it
-- ARGV[4i]      channel  prefix of the channel of a position; `:` and the holder follow
-- ARGV[4i + 1]  wait     milliseconds that each position adds to the score
-- Returns  1 if the lock was this holder's; 0 if not, even if a position was. For several
--          locks a list, with -1 for one whose keys cannot be read or written
--
-- A lock that is retained loses its holder field, so that a late renewal changes nothing.
--
-- Work: O(1) each; O(n) for n positions if one leaves the queue. Sent twice, it returns 0 the
-- second time; with `keep` it returns 1 and changes nothing.
local publish = ARGV[1]
local function release(k, holder, keep, channel, wait)
  local held, kept = nil, holder .. ':kept'
  if keep == '0' then
    held = redis.call('HDEL', k[1], holder)
  elseif redis.call('HEXISTS', k[1], kept) == 1 then
    return 1
  else
    held = redis.call('HEXISTS', k[1], holder)
  end
  if held == 1 and keep ~= '0' then
    -- In this order: a full server refuses HSET as the first write, and a hash without fields loses
    -- its lifetime.
    redis.call('PEXPIRE', k[1], keep)
    redis.call('HSET', k[1], kept, '1')
    redis.call('HDEL', k[1], holder)
  end
  grant_grace(k, 0)
  local is_position = held == 0 and redis.call('ZSCORE', k[3], holder)
  if is_position then
    update_queue(k, wait, {holder})
  elseif needs_cleanup(k) then
    update_queue(k, wait, {})
  end
  -- If the lock is retained, the head has seen a longer lease and must poll again.
  if (held == 1 or is_position) and (keep ~= '0' or redis.call('EXISTS', k[1]) == 0) then
    notify_head(k, publish, channel)
  end
  return held
end
-- An error for a single lock is returned as the error of the script.
local single = #KEYS == 4
local out = {}
for i = 1, #KEYS / 4 do
  local k = {KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], KEYS[4 * i]}
  local release_this = function()
    return release(k, ARGV[4 * i - 2], ARGV[4 * i - 1], ARGV[4 * i], tonumber(ARGV[4 * i + 1]))
  end
  if single then
    out[i] = release_this()
  else
    local done, held = pcall(release_this)
    out[i] = done and held or -1
  end
end
return single and out[1] or out
