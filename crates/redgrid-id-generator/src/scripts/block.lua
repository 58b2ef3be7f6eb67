-- block.lua: take one block of ids, or several that follow each other, as Redisson takes one.
--
-- KEYS[1]  next        string; the first id of the next block; absent is 1
-- KEYS[2]  allocation  string; how many ids a block has; absent is 5000, and is written
-- ARGV[1]  wanted      how many ids are wanted
-- ARGV[2]  from        none of them is below this one: where a server has forgotten to have given those; empty for any
-- Returns  {'block', first, ids}     in decimal text
--          {'strange', key, what}    what is under that key is no such number: `next` or `allocation`; nothing is changed
--
-- Work: O(1), writes at most two keys, and none where it is refused. Sent twice, it takes twice: a block that nobody is told of is not
-- given. A copy that arrives after the generator was deleted begins it again, without harm but for its allocation. Numbers of this
-- language are exact up to 2^53, so larger ones stay text. What is beyond 2^63 is refused by the server.
local function is_less(digits, than)
  if #digits ~= #than then
    return #digits < #than
  end
  return digits < than
end
-- The sign and the digits of a whole number of 64 bits; nothing of anything else.
local function parts(text)
  local sign, digits = string.match(text, '^(-?)([1-9]%d*)$')
  if text == '0' then
    return '', '0'
  end
  if not digits or is_less(sign == '-' and '9223372036854775808' or '9223372036854775807', digits) then
    return nil
  end
  return sign, digits
end
local function is_below(one, other)
  local sign, digits = parts(one)
  local other_sign, other_digits = parts(other)
  if sign ~= other_sign then
    return sign == '-'
  end
  if sign == '-' then
    return is_less(other_digits, digits)
  end
  return is_less(digits, other_digits)
end
local next, size = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])
if next and not parts(next) then
  return {'strange', 'next', string.sub(next, 1, 64)}
end
if size and (size == '0' or parts(size) ~= '') then
  return {'strange', 'allocation', string.sub(size, 1, 64)}
end
local first, each = next or '1', size or '5000'
if ARGV[2] ~= '' and is_below(first, ARGV[2]) then
  first = ARGV[2]
end
local ids, many = each, tonumber(each) * math.ceil(tonumber(ARGV[1]) / tonumber(each))
if many > tonumber(each) and many < 2 ^ 53 then
  ids = string.format('%.0f', many)
end
if not size then
  redis.call('SET', KEYS[2], each)
end
if not next then
  redis.call('SET', KEYS[1], first)
elseif first ~= next then
  redis.call('SET', KEYS[1], first, 'KEEPTTL')
end
local taken = redis.pcall('INCRBY', KEYS[1], ids)
if type(taken) == 'table' and taken.err and ids ~= each then
  -- Near the end there may be one block, where there are not so many.
  ids = each
  taken = redis.pcall('INCRBY', KEYS[1], ids)
end
if type(taken) == 'table' and taken.err then
  -- Who may not take has not begun.
  if not size then
    redis.pcall('DEL', KEYS[2])
  end
  if not next then
    redis.pcall('DEL', KEYS[1])
  elseif first ~= next then
    redis.pcall('SET', KEYS[1], next, 'KEEPTTL')
  end
  return taken
end
return {'block', first, ids}
