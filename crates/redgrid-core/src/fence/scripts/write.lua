-- write.lua: executes one write if its token is not stale. Remembers the token and the reply.
--
-- KEYS[1]  data       the key of the write
-- KEYS[2]  fence      string; the highest token that has passed, in decimal
-- KEYS[3]  reply      string; the reply of this call; a new key for each call
-- ARGV[1]  token      decimal, without leading zeros: a time in microseconds since 1970
-- ARGV[2]  lifetime   how long the highest token is remembered after a token has passed, in
--                     milliseconds; 0: forever. If the token is later than this server's time,
--                     the difference is added to the lifetime
-- ARGV[3]  remember   how long the reply is stored, in milliseconds: longer than any transmission
--                     of the request can be in flight
-- ARGV[4]  not after  deadline by this server's clock, in microseconds since 1970
-- ARGV[5]  command    SET, HSET, HDEL, DEL or INCRBY; its arguments follow, without the key
-- Returns  {1, reply}    written: `reply` is 1 for SET, otherwise the reply of the command
--          {0, highest}  stale: `highest` has passed before
--          {2, time}     too late: `time` is this server's time, in microseconds since 1970
--          {3, ''}       no token is remembered, and the given token is older than the lifetime
--
-- Work: that of the command, writes three keys. Sent twice, it writes once: the second transmission
-- finds the stored reply of the first, even if the same holder has written something else since.
local now = redis.call('TIME')
local time = now[1] .. string.format('%06d', now[2])
if tonumber(time) > tonumber(ARGV[4]) then
  return {2, time}
end
local reply = redis.call('GET', KEYS[3])
if reply then
  return {1, reply}
end
local token, lifetime = ARGV[1], tonumber(ARGV[2])
local highest = redis.call('GET', KEYS[2])
if highest then
  -- Tokens are compared as text, because numbers above 2^53 are not exact in Lua.
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
-- The token is stored before the data. So if the server refuses to store the token, no data has
-- been written.
if lifetime > 0 then
  -- A token that is later than this server's time is remembered until its age reaches the lifetime.
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
local result = redis.pcall(command, KEYS[1], unpack(ARGV, 6))
if type(result) == 'table' and result.err then
  return result
end
if command == 'SET' then
  reply = '1'
elseif command == 'INCRBY' then
  -- The stored text is exact. A number in Lua is not exact above 2^53.
  reply = redis.call('GET', KEYS[1])
else
  reply = tostring(result)
end
redis.call('SET', KEYS[3], reply, 'PX', ARGV[3])
return {1, reply}
