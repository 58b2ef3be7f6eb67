-- put.lua: sets keys of a map cache. Appended to packed.lua.
--
-- ARGV[6]  the condition for each key: any, absent, present or equal
-- ARGV[7]  1 to return the previous values
-- ARGV[8]  lifetime: see `expiry_of`
-- ARGV[9]  idle time in milliseconds, 0 for none, = for the current one
-- ARGV[10…] for each key the key and its value, 500 at most; with `equal` one key, its value, and
--          the expected value
-- Returns  for each key {0 unchanged, 1 new, 2 replaced; the previous value, or nothing}
--
-- Work: O(keys * log n); removes up to 100 expired entries, and beyond the limit up to 100 and one
-- more for each new key. Not to be sent twice: the reply to the second transmission would describe
-- the effect of the first.
local refusal = precheck()
if refusal then
  return refusal
end
purge(MAX_REMOVED)
local results = {}
local step = ARGV[6] == 'equal' and 3 or 2
for i = 10, #ARGV, step do
  local field, value = ARGV[i], ARGV[i + 1]
  local previous, current_idle, expired = read_live(field)
  local returned = ARGV[7] == '1' and previous or false
  local matches = ARGV[6] == 'any' or (ARGV[6] == 'absent' and not previous) or (ARGV[6] == 'present' and previous)
    or (ARGV[6] == 'equal' and previous == ARGV[i + 2])
  if matches then
    local current_expiry = previous and redis.call('ZSCORE', KEYS[2], field) or nil
    local idle = ARGV[9] == '=' and (current_idle or 0) or tonumber(ARGV[9])
    redis.call('HSET', KEYS[1], field, struct.pack('dLc0', idle, #value, value))
    set_expiry(field, expiry_of(ARGV[8], current_expiry or nil), idle)
    if KEYS[6] then
      redis.call('DEL', KEYS[5 + (i - 10) / step + 1])
    end
    if expired then
      redis.call('ZREM', KEYS[4], field)
      publish_event(EXPIRED, field, expired)
    end
    if previous then
      publish_event(UPDATED, field, value, previous)
    else
      publish_event(CREATED, field, value)
    end
    if limit > 0 then
      record_access(field, 0)
      budget = budget + (previous and 0 or 1)
      evict(field)
    end
    results[#results + 1] = {previous and 2 or 1, returned}
  else
    if previous and ARGV[6] == 'absent' then
      record_access(field, current_idle)
    end
    results[#results + 1] = {0, returned}
  end
end
sync_expiry()
return results
