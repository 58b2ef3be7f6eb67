-- integers.lua: whole numbers as decimal text, compared exactly: Lua's own numbers are exact up to 2^53 only.
local function whole(text)
  local sign, digits = string.match(text, '^(-?)0*(%d+)$')
  if not digits or #digits > 19 then
    return nil
  end
  return {negative = sign == '-' and digits ~= '0', digits = digits}
end
local function less(one, other)
  local a, b = whole(one), whole(other)
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
local function present()
  return redis.call('GET', KEYS[2])
end
