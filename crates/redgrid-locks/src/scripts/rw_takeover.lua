-- rw_takeover.lua: take over a read-write lock for one writer, and notify the holders that lose it.
--
-- KEYS[1]  lock          hash: `mode`, and a field for each holder
-- ARGV[1]  writer        new for each grant; ends with `:write`
-- ARGV[2]  lease         milliseconds
-- ARGV[3]  not after     microseconds since 1970 by this server's clock
-- ARGV[4]  only if held  1: do not take a free lock
-- ARGV[5]  notices       prefix of a client's notice channel; the client's id and `}` follow
-- ARGV[6]  expected      a writer: the lock is taken only from it, and its reads stay; absent: from
--                        all holders
-- Returns  {1, time, n}     taken over at `time`, the fencing token; n holders lost it
--          {0, time, -2}    nothing was taken over: it was free
--          {0, time, left}  nothing was taken over: `expected` does not hold it, but others do;
--                           `left` is the PTTL
--          {2, time, 0}     too late
--
-- Work: O(holders), writes one key; the timeout keys of readers expire with their leases.
-- Sent twice within its lease, it finds its own field the second time, and takes nothing over.
-- After the lease a retransmission could take the lock from a newer holder, so none is sent then.
local now = redis.call('TIME')
local time = now[1] * 1000000 + now[2]
if time > tonumber(ARGV[3]) then
  return {2, time, 0}
end
if ARGV[6] and redis.call('HEXISTS', KEYS[1], ARGV[6]) == 0 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return {0, time, redis.call('PTTL', KEYS[1])}
end
local holders = redis.call('HKEYS', KEYS[1])
if #holders == 0 and ARGV[4] == '1' then
  return {0, time, -2}
end
local losers, others_stay = {}, false
for _, holder in ipairs(holders) do
  if holder ~= ARGV[1] and holder ~= 'mode' then
    if not ARGV[6] or holder == ARGV[6] then
      losers[#losers + 1] = holder
    else
      others_stay = true
    end
  end
end
local mode = redis.call('HGET', KEYS[1], 'mode')
redis.call('HSET', KEYS[1], 'mode', 'write', ARGV[1], '1')
local expire_reply
-- Reads that stay may have longer leases. If the takeover is never released, it then ends with the
-- last of them.
if not others_stay or redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  expire_reply = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
end
if type(expire_reply) == 'table' then
  redis.call('HDEL', KEYS[1], ARGV[1])
  if mode then
    redis.call('HSET', KEYS[1], 'mode', mode)
  else
    redis.call('HDEL', KEYS[1], 'mode')
  end
  return expire_reply
end
for _, holder in ipairs(losers) do
  redis.call('HDEL', KEYS[1], holder)
  local client, number = string.match(holder, '^(%x+%-%x+%-%x+%-%x+%-%x+):(%d+)')
  if client then
    -- A notice that cannot be sent must not undo the takeover. The holder notices the loss at its
    -- next renewal.
    redis.pcall('PUBLISH', ARGV[5] .. client .. '}', client .. ':' .. number)
  end
end
return {1, time, #losers}
