-- expire.lua: sets the lifetimes of keys of a map cache. Appended to packed.lua.
--
-- ARGV[6]  1 to change only keys that have no lifetime and no idle time
-- ARGV[7]  lifetime: see `expiry_of`
-- ARGV[8]  idle time in milliseconds, 0 for none, = for the current one
-- ARGV[9…] keys, 500 at most
-- Returns  the number of changed keys
--
-- Work: O(keys * log n); removes up to 100 expired entries. Sent twice, the times start again.
local refusal = precheck()
if refusal then
  return refusal
end
purge(MAX_REMOVED)
local changed, seen = 0, {}
for i = 9, #ARGV do
  local field = ARGV[i]
  local value, idle = read_live(field)
  if value and not seen[field] then
    seen[field] = true
    local current_expiry = redis.call('ZSCORE', KEYS[2], field) or nil
    if ARGV[6] ~= '1' or (not current_expiry and idle == 0) then
      local new_idle = ARGV[8] == '=' and idle or tonumber(ARGV[8])
      set_expiry(field, expiry_of(ARGV[7], current_expiry), new_idle)
      if new_idle ~= idle then
        redis.call('HSET', KEYS[1], field, struct.pack('dLc0', new_idle, #value, value))
      end
      changed = changed + 1
    end
  end
end
sync_expiry()
return changed
