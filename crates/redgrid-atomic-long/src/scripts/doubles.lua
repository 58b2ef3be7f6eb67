-- doubles.lua: the prelude of scripts on floating point numbers; integers.lua has the same
-- functions.
--
-- Numbers are decimal text, which stands for the nearest double.
local invalid_error = 'ERR value is not a valid float'
local function parse(text)
  -- The pattern rejects hexadecimal numbers and surrounding spaces, which Lua accepts.
  local number = string.match(text, '^[-+]?[%d.]+[eE]?[-+]?%d*$') and tonumber(text)
  if not number or number ~= number or number == math.huge or number == -math.huge then
    return nil
  end
  return number
end
local function less(left, right)
  return parse(left) < parse(right)
end
-- Adds `by` to the number. Returns the sum as text. On failure, it changes nothing and returns a
-- table with the error. The server adds with more digits and a larger range than a double: a sum
-- beyond all doubles is undone. The server stores 17 decimals, so the addition of 0 leaves the text
-- unchanged.
local function add(by)
  local previous = redis.call('GET', KEYS[2])
  if previous and not parse(previous) then
    return {err = invalid_error}
  end
  if previous and tonumber(by) == 0 then
    return previous
  end
  local sum = redis.pcall('INCRBYFLOAT', KEYS[2], by)
  if type(sum) == 'table' or parse(sum) then
    return sum
  end
  if previous then
    redis.call('SET', KEYS[2], previous, 'KEEPTTL')
  else
    redis.call('DEL', KEYS[2])
  end
  return {err = 'ERR increment or decrement would overflow'}
end
