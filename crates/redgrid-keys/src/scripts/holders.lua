-- holders.lua: the common prelude, which recognizes a lock by some of its fields.
--
-- A holder field is `<uuid>:<number>`. `:write` follows for the writer of a read-write lock, and
-- `:kept` if the lock stays taken after the release.

-- Returns whether a field is a holder's.
local function is_holder(field)
  if #field > 80 or string.sub(field, 37, 37) ~= ':' then
    return false
  end
  local rest = string.match(string.sub(field, 38), '^%d+(.*)$')
  return string.find(string.sub(field, 1, 36), '^%x+%-%x+%-%x+%-%x+%-%x+$') ~= nil
    and (rest == '' or rest == ':write' or rest == ':kept' or rest == ':write:kept')
end

-- Returns the mode of a read-write lock, or '' for another hash. A long value is not read.
local function mode_of(key)
  local length = redis.call('HSTRLEN', key, 'mode')
  local mode = (length == 4 or length == 5) and redis.call('HGET', key, 'mode')
  return (mode == 'read' or mode == 'write') and mode or ''
end

-- Returns some fields of a hash with `n` fields, at most eight, and never their values.
local function sample(key, n)
  return n <= 8 and redis.call('HKEYS', key) or redis.call('HRANDFIELD', key, 8)
end

-- Returns a holder among these fields, or nil if one of them is not a holder's.
local function holder_among(fields, mode)
  local holder
  for _, field in ipairs(fields) do
    if is_holder(field) then
      holder = holder or field
    elseif mode == '' or field ~= 'mode' then
      return nil
    end
  end
  return holder
end

-- Returns a holder of the lock at this key, a hash with `n` fields, and the mode of a read-write
-- lock, otherwise ''. The holder is nil if the hash is not a lock.
local function lock_at(key, n)
  local mode = mode_of(key)
  return (mode ~= '' or n == 1) and holder_among(sample(key, n), mode) or nil, mode
end

-- Returns whether a key is a held lock.
local function is_lock(key)
  return redis.call('TYPE', key).ok == 'hash' and lock_at(key, redis.call('HLEN', key)) ~= nil
end

