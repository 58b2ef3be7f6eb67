-- block.lua: takes one block of ids, or several consecutive ones, in the format of Redisson.
--
-- KEYS[1]  next        string; the first id of the next block; 1 if it does not exist
-- KEYS[2]  allocation  string; the number of ids of a block; if it does not exist, 5000 is written
-- ARGV[1]  wanted      the number of wanted ids
-- ARGV[2]  from        the minimum of the ids, if the server may have lost ids below it; otherwise
--                      empty
-- Returns  {'block', first, ids}     the first id and the number of ids, in decimal
--          {'strange', key, value}   the value of that key (`next` or `allocation`) is not a valid
--                                    number; nothing is changed
--
-- Work: O(1), writes at most two keys, and none if it is refused. Sent twice, it takes two blocks:
-- a block with a lost reply is not issued. A retransmission that arrives after the generator was
-- deleted creates it again. The only consequence is that its allocation may be set.
--
-- Lua's numbers are exact up to 2^53, so larger ones stay text. The server refuses numbers beyond
-- 2^63.
local function is_less(digits, other)
  if #digits ~= #other then
    return #digits < #other
  end
  return digits < other
end
-- Returns the sign and the digits of a whole number of 64 bits; nil for anything else.
local function parse(text)
  local sign, digits = string.match(text, '^(-?)([1-9]%d*)$')
  if text == '0' then
    return '', '0'
  end
  if not digits or is_less(sign == '-' and '9223372036854775808' or '9223372036854775807', digits) then
    return nil
  end
  return sign, digits
end
local function is_below(left, right)
  local sign, digits = parse(left)
  local right_sign, right_digits = parse(right)
  if sign ~= right_sign then
    return sign == '-'
  end
  if sign == '-' then
    return is_less(right_digits, digits)
  end
  return is_less(digits, right_digits)
end
local next, size = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])
if next and not parse(next) then
  return {'strange', 'next', string.sub(next, 1, 64)}
end
if size and (size == '0' or parse(size) ~= '') then
  return {'strange', 'allocation', string.sub(size, 1, 64)}
end
local first, block_size = next or '1', size or '5000'
if ARGV[2] ~= '' and is_below(first, ARGV[2]) then
  first = ARGV[2]
end
local ids, total = block_size, tonumber(block_size) * math.ceil(tonumber(ARGV[1]) / tonumber(block_size))
if total > tonumber(block_size) and total < 2 ^ 53 then
  ids = string.format('%.0f', total)
end
if not size then
  redis.call('SET', KEYS[2], block_size)
end
if not next then
  redis.call('SET', KEYS[1], first)
elseif first ~= next then
  redis.call('SET', KEYS[1], first, 'KEEPTTL')
end
local reply = redis.pcall('INCRBY', KEYS[1], ids)
if type(reply) == 'table' and reply.err and ids ~= block_size then
  -- Several blocks do not fit into the range of 64 bits, but one block may.
  ids = block_size
  reply = redis.pcall('INCRBY', KEYS[1], ids)
end
if type(reply) == 'table' and reply.err then
  -- INCRBY was refused: undo the writes, so that a user without permission does not create the
  -- generator.
  if not size then
    redis.pcall('DEL', KEYS[2])
  end
  if not next then
    redis.pcall('DEL', KEYS[1])
  elseif first ~= next then
    redis.pcall('SET', KEYS[1], next, 'KEEPTTL')
  end
  return reply
end
return {'block', first, ids}
