-- fence_write.lua: carry out one write if its token is not stale, and remember the token and the answer.
--
-- KEYS[1]  data       what is written
-- KEYS[2]  fence      string; the highest token that has passed, in decimal
-- KEYS[3]  memory     string; the answer of this very call, new for each call
-- ARGV[1]  token      decimal, without leading zeros
-- ARGV[2]  lifetime   milliseconds that a fence is remembered after the last token, by the later of the two: the time that it
--                     says, and that at which it passed; 0 for ever
-- ARGV[3]  remember   milliseconds for which the answer is kept: longer than any copy of the call is under way
-- ARGV[4]  not after  microseconds since 1970 by this server's clock; later than that, nothing is done
-- ARGV[5]  command    SET, HSET, HDEL, DEL or INCRBY; its arguments after the key follow
-- Returns  {1, answer}   written: 1 for SET, what the command answers for the others
--          {0, highest}  stale: `highest` has passed before
--          {2, time}     too late
--          {3, ''}       nothing is remembered, and the token is older than the lifetime of a fence
--
-- Work: that of the command, writes three keys. Sent twice, it writes once: a copy finds the answer, also when the same holder
-- has written something else since, and after `not after` it does nothing.
local now = redis.call('TIME')
local time = now[1] .. string.format('%06d', now[2])
if tonumber(time) > tonumber(ARGV[4]) then
  return {2, time}
end
local answer = redis.call('GET', KEYS[3])
if answer then
  return {1, answer}
end
local token, lifetime = ARGV[1], tonumber(ARGV[2])
local highest = redis.call('GET', KEYS[2])
if highest then
  -- As text, since numbers above 2^53 are not exact here.
  if #token < #highest or (#token == #highest and token < highest) then
    return {0, highest}
  end
elseif lifetime > 0 and tonumber(token) < tonumber(time) - lifetime * 1000 then
  return {3, ''}
end
local command = ARGV[5]
if command ~= 'SET' and command ~= 'HSET' and command ~= 'HDEL' and command ~= 'DEL' and command ~= 'INCRBY' then
  return redis.error_reply('ERR a fence does not carry out ' .. command)
end
-- The fence first: were it denied, nothing would be written.
if lifetime > 0 then
  -- A token that is ahead of this server's clock is remembered until it is as old as the lifetime.
  local lead = math.max(0, math.ceil((tonumber(token) - tonumber(time)) / 1000))
  local left = redis.call('PTTL', KEYS[2])
  if left == -1 then
    redis.call('SET', KEYS[2], token)
  else
    redis.call('SET', KEYS[2], token, 'PX', string.format('%.0f', math.max(left, lifetime + lead)))
  end
else
  redis.call('SET', KEYS[2], token)
end
local done = redis.pcall(command, KEYS[1], unpack(ARGV, 6))
if type(done) == 'table' and done.err then
  return done
end
if command == 'SET' then
  answer = '1'
elseif command == 'INCRBY' then
  -- The text is exact above 2^53, too.
  answer = redis.call('GET', KEYS[1])
else
  answer = tostring(done)
end
redis.call('SET', KEYS[3], answer, 'PX', ARGV[3])
return {1, answer}
