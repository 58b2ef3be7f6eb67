-- acquire_vote.lua: acquire a lock at one server of a quorum, if the server votes and the lock is
-- free here.
--
-- KEYS[1]  lock         hash; one field, the holder; absent when free
-- KEYS[2]  incarnation  string; `<run id> <time>`: the server process, and from when it votes
-- KEYS[3]  token        string; the last token, if tokens are counted; expires 30 days after it
-- ARGV[1]  holder       new for each grant
-- ARGV[2]  lease        milliseconds
-- ARGV[3]  not after    microseconds since 1970 by this server's clock; after it, nothing is done
-- Returns  {1, time, 0}     granted at `time` (microseconds since 1970); with KEYS[3] the token is
--                           a fourth element
--          {0, time, left}  held by another holder; its PTTL
--          {0, time, -1}    the server abstains: its process is new, and may have lost the holders
--          {2, time, 0}     too late
--
-- Work: O(1), writes one key or two. Sent twice, it acquires once and returns the same token. A
-- token is at least the time. So if a counter has expired, new tokens are still higher: the clocks
-- of the servers differ by less than the counter's lifetime.
local COUNTER_TTL = 2592000000
local now = redis.call('TIME')
local time = now[1] * 1000000 + now[2]
if time > tonumber(ARGV[3]) then
  return {2, time, 0}
end
local run_id, votes_from = string.match(redis.call('GET', KEYS[2]) or '', '^(%x+) (%d+)$')
if run_id ~= string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or time < tonumber(votes_from) then
  return {0, time, -1}
end
local token
if redis.call('EXISTS', KEYS[1]) == 1 then
  if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    return {0, time, redis.call('PTTL', KEYS[1])}
  end
  token = KEYS[3] and redis.call('GET', KEYS[3])
end
if KEYS[3] and not token then
  local last = tonumber(redis.call('GET', KEYS[3]) or '0')
  token = string.format('%.0f', math.max(last + 1, time))
  redis.call('SET', KEYS[3], token, 'PX', COUNTER_TTL)
end
redis.call('HSET', KEYS[1], ARGV[1], '1')
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  local expire_reply = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
  if type(expire_reply) == 'table' then
    -- A lock needs a lifetime: a user without `+pexpire` cannot acquire it.
    redis.call('HDEL', KEYS[1], ARGV[1])
    return expire_reply
  end
end
return {1, time, 0, token or nil}
