-- integers.lua: whole numbers as decimal text, compared exactly: Lua's own numbers are exact up to 2^53 only. What every script
-- about a number begins with; doubles.lua has the same functions. A number is -2^63 to 2^63 - 1, without a plus.
local refusal = 'ERR value is not an integer or out of range'
local function valid(text)
  local sign, digits = string.match(text, '^(-?)0*(%d+)$')
  local most = sign == '-' and '9223372036854775808' or '9223372036854775807'
  if not digits or #digits > #most or #digits == #most and digits > most then
    return nil
  end
  return {negative = sign == '-' and digits ~= '0', digits = digits}
end
local function less(one, other)
  local a, b = valid(one), valid(other)
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
-- The number after `by` was added, as text; or a table with the server's error, and nothing is changed.
local function increased(by)
  local now = redis.pcall('INCRBY', KEYS[2], by)
  return type(now) == 'table' and now or redis.call('GET', KEYS[2])
end
