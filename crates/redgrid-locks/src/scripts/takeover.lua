-- takeover.lua: take over a lock, whichever holder has it, and notify the holders that lose it.
--
-- KEYS[1]  lock          hash; its fields are the holders
-- KEYS[2]  token         string; the last token, if tokens are counted
-- ARGV[1]  holder        new for each grant
-- ARGV[2]  lease         milliseconds
-- ARGV[3]  not after     microseconds since 1970 by this server's clock
-- ARGV[4]  only if held  1: do not take a free lock
-- ARGV[5]  notices       prefix of a client's notice channel; the client's id and `}` follow
-- ARGV[6]  expected      a holder: the lock is taken only if it is the only holder; absent: from
--                        all holders
-- Returns  {1, time, n}     taken over at `time`, the fencing token; n holders lost it; with
--                           KEYS[2] the token is a fourth element
--          {0, time, -2}    nothing was taken over: it was free
--          {0, time, left}  nothing was taken over: others than `expected` hold it; `left` is
--                           the PTTL
--          {2, time, 0}     too late
--
-- Work: O(holders), writes one key. Sent twice within its lease, it finds its own field the second
-- time, and takes nothing over. After the lease a retransmission could take the lock from a newer
-- holder, so none is sent then.
local now = redis.call('TIME')
local time = now[1] * 1000000 + now[2]
if time > tonumber(ARGV[3]) then
  return {2, time, 0}
end
if ARGV[6] then
  local known = redis.call('HEXISTS', KEYS[1], ARGV[6]) + redis.call('HEXISTS', KEYS[1], ARGV[1])
  if known == 0 or redis.call('HLEN', KEYS[1]) > known then
    return {0, time, redis.call('PTTL', KEYS[1])}
  end
end
local holders = redis.call('HKEYS', KEYS[1])
if #holders == 0 and ARGV[4] == '1' then
  return {0, time, -2}
end
local token
if KEYS[2] and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  token = redis.call('GET', KEYS[2]) or nil
end
if KEYS[2] and not token then
  local last = tonumber(redis.call('GET', KEYS[2]) or '0')
  token = string.format('%.0f', math.max(last + 1, time))
  redis.call('SET', KEYS[2], token)
end
redis.call('HSET', KEYS[1], ARGV[1], '1')
local expire_reply = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
if type(expire_reply) == 'table' then
  redis.call('HDEL', KEYS[1], ARGV[1])
  return expire_reply
end
local lost = 0
for _, holder in ipairs(holders) do
  if holder ~= ARGV[1] then
    lost = lost + 1
    redis.call('HDEL', KEYS[1], holder)
    local client = string.match(holder, '^(%x+%-%x+%-%x+%-%x+%-%x+):')
    if client then
      -- A notice that cannot be sent must not undo the takeover. The holder notices the loss at its
      -- next renewal.
      redis.pcall('PUBLISH', ARGV[5] .. client .. '}', holder)
    end
  end
end
return {1, time, lost, token}
