-- rule.lua: what is beside an object belongs to it where both are what one type of objects has there. Somebody may have
-- something else of that name. The keys of an object come in a row: its own, `{name}:timeout`, `{name}:value`,
-- `{name}:permits`, `{name}:allocation`, `{name}:config`, and those whose prefix tells that they are its.
--
-- The values of a multimap are in keys that only its hash names: such a row is left to the client.
local function kind(key)
  return redis.call('TYPE', key).ok
end

local function is_number(key)
  return redis.call('STRLEN', key) <= 20 and string.find(redis.call('GET', key), '^-?%d+$') ~= nil
end

-- Whether a key is the configuration of a Bloom filter with these bits. An empty filter has no bits.
local function is_filter(bits, config)
  local of = kind(bits)
  return (of == 'string' or of == 'none') and kind(config) == 'hash'
    and redis.call('HEXISTS', config, 'size') + redis.call('HEXISTS', config, 'hashIterations') == 2
end

-- Whether a key may be a multimap: a hash with a value that can be the hash of a key. The client looks for the values of that key.
local function may_be_multimap(key)
  if kind(key) ~= 'hash' then
    return false
  end
  local page = redis.pcall('HSCAN', key, 0, 'COUNT', 10)
  for at = 2, page.err and 0 or #page[2], 2 do
    if #page[2][at] == 22 and string.find(page[2][at], '^[%w+/]+$') then
      return true
    end
  end
  return false
end

-- All keys of the object whose row begins at `at` and has `each` keys.
local function row(at, each)
  local all = {KEYS[at]}
  local of = kind(KEYS[at])
  if of == 'string' and kind(KEYS[at + 1]) == 'zset' and is_number(KEYS[at]) then
    all[#all + 1] = KEYS[at + 1]
  end
  if of == 'stream' and kind(KEYS[at + 1]) == 'zset' then
    all[#all + 1] = KEYS[at + 1]
  end
  if of == 'hash' and redis.call('HEXISTS', KEYS[at], 'rate') + redis.call('HEXISTS', KEYS[at], 'interval') == 2 then
    if kind(KEYS[at + 2]) == 'string' then
      all[#all + 1] = KEYS[at + 2]
    end
    if kind(KEYS[at + 3]) == 'zset' then
      all[#all + 1] = KEYS[at + 3]
    end
  end
  if of == 'string' and kind(KEYS[at + 4]) == 'string' and is_number(KEYS[at]) and is_number(KEYS[at + 4]) then
    all[#all + 1] = KEYS[at + 4]
  end
  if is_filter(KEYS[at], KEYS[at + 5]) then
    all[#all + 1] = KEYS[at + 5]
  end
  for i = at + 6, at + each - 1 do
    all[#all + 1] = KEYS[i]
  end
  return all
end

