-- integers.lua: the prelude of scripts on whole numbers; doubles.lua has the same functions.
--
-- Numbers are decimal text and are compared exactly, because Lua's own numbers are exact only up to
-- 2^53. A valid number is -2^63 to 2^63 - 1, without a plus sign.
local invalid_error = 'ERR value is not an integer or out of range'
local function parse(text)
  local sign, digits = string.match(text, '^(-?)0*(%d+)$')
  local max = sign == '-' and '9223372036854775808' or '9223372036854775807'
  if not digits or #digits > #max or #digits == #max and digits > max then
    return nil
  end
  return {negative = sign == '-' and digits ~= '0', digits = digits}
end
local function less(left, right)
  local a, b = parse(left), parse(right)
  if a.negative ~= b.negative then
    return a.negative
  end
  if a.negative then
    a, b = b, a
  end
  if #a.digits ~= #b.digits then
    return #a.digits < #b.digits
  end
  return a.digits < b.digits
end
-- Adds `by` to the number. Returns the sum as text. On failure, it changes nothing and returns a
-- table with the server's error.
local function add(by)
  local reply = redis.pcall('INCRBY', KEYS[2], by)
  return type(reply) == 'table' and reply or redis.call('GET', KEYS[2])
end
