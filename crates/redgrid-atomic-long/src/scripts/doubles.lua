-- doubles.lua: floating point numbers as decimal text, which count as the nearest double. What every script about such a number
-- begins with; integers.lua has the same functions.
local refusal = 'ERR value is not a valid float'
local function valid(text)
  -- Lua also takes hexadecimal numbers and spaces around them.
  local number = string.match(text, '^[-+]?[%d.]+[eE]?[-+]?%d*$') and tonumber(text)
  if not number or number ~= number or number == math.huge or number == -math.huge then
    return nil
  end
  return number
end
local function less(one, other)
  return valid(one) < valid(other)
end
-- The number after `by` was added, as text; or a table with an error, and nothing is changed. The server adds with more digits than a
-- double has, and further than any double reaches: what is beyond is taken back. It keeps 17 decimals, so where nothing is added the text stays.
local function increased(by)
  local was = redis.call('GET', KEYS[2])
  if was and not valid(was) then
    return {err = refusal}
  end
  if was and tonumber(by) == 0 then
    return was
  end
  local now = redis.pcall('INCRBYFLOAT', KEYS[2], by)
  if type(now) == 'table' or valid(now) then
    return now
  end
  if was then
    redis.call('SET', KEYS[2], was, 'KEEPTTL')
  else
    redis.call('DEL', KEYS[2])
  end
  return {err = 'ERR increment or decrement would overflow'}
end
