-- ownership.lua: the common prelude, which determines the keys of an object.
--
-- A companion (`{name}:timeout`, …) belongs to an object if the types of both keys match those of a
-- known kind of object. Otherwise it may be a key of another user.
--
-- The keys of an object are passed as a row: its own key; the possible companions `{name}:timeout`,
-- `{name}:value`, `{name}:permits`, `{name}:allocation` and `{name}:config`; and the keys that
-- belong to it because of their prefix.
--
-- Only the hash of a multimap refers to the keys of its values, so the client handles multimaps.
local function kind(key)
  return redis.call('TYPE', key).ok
end

local function is_number(key)
  return redis.call('STRLEN', key) <= 20 and string.find(redis.call('GET', key), '^-?%d+$') ~= nil
end

-- Returns whether `config` is the configuration of a Bloom filter with these bits. The bits of an
-- empty filter do not exist.
local function is_filter(bits, config)
  local bits_kind = kind(bits)
  return (bits_kind == 'string' or bits_kind == 'none') and kind(config) == 'hash'
    and redis.call('HEXISTS', config, 'size') + redis.call('HEXISTS', config, 'hashIterations') == 2
end

-- Returns whether a key may be a multimap: a hash in which a value can be the hash of a key. The
-- client checks whether the values of that key exist.
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

-- Returns all keys of an object. Its row starts at index `at` of KEYS, and has `width` keys.
local function owned_keys(at, width)
  local owned = {KEYS[at]}
  local object_kind = kind(KEYS[at])
  if object_kind == 'string' and kind(KEYS[at + 1]) == 'zset' and is_number(KEYS[at]) then
    owned[#owned + 1] = KEYS[at + 1]
  end
  if object_kind == 'stream' and kind(KEYS[at + 1]) == 'zset' then
    owned[#owned + 1] = KEYS[at + 1]
  end
  if object_kind == 'hash'
    and redis.call('HEXISTS', KEYS[at], 'rate') + redis.call('HEXISTS', KEYS[at], 'interval') == 2 then
    if kind(KEYS[at + 2]) == 'string' then
      owned[#owned + 1] = KEYS[at + 2]
    end
    if kind(KEYS[at + 3]) == 'zset' then
      owned[#owned + 1] = KEYS[at + 3]
    end
  end
  if object_kind == 'string' and kind(KEYS[at + 4]) == 'string' and is_number(KEYS[at]) and is_number(KEYS[at + 4]) then
    owned[#owned + 1] = KEYS[at + 4]
  end
  if is_filter(KEYS[at], KEYS[at + 5]) then
    owned[#owned + 1] = KEYS[at + 5]
  end
  for i = at + 6, at + width - 1 do
    owned[#owned + 1] = KEYS[i]
  end
  return owned
end

