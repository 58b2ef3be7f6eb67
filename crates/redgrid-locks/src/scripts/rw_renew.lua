-- rw_renew.lua: lengthen the leases of many readers, or only check whether they still hold.
--
-- KEYS[2i - 1]  lock    hash: `mode`, and a field for each holder
-- KEYS[2i]      level   string; present while the reader's lease lasts
-- ARGV[2i - 1]  reader
-- ARGV[2i]      lease   milliseconds from now; 0 only checks
-- Returns  a list: 1 the reader holds, for `lease` at least; 0 it does not; -1 the keys cannot be read or written
--
-- A full server (maxmemory) refuses SET but not PEXPIRE, so SET is used only for a level key that is missing.
--
-- Work: O(keys), writes each of ours. Sent twice, it renews twice; it never shortens, and frees nothing.
local function failed(reply)
  return type(reply) == 'table' and reply.err
end
local out = {}
for i = 1, #KEYS / 2 do
  local lock, level, lease = KEYS[2 * i - 1], KEYS[2 * i], ARGV[2 * i]
  local ours = redis.pcall('HEXISTS', lock, ARGV[2 * i - 1])
  if type(ours) == 'table' then
    ours = -1
  elseif ours == 1 and lease ~= '0' then
    local level_set, lock_set
    if redis.call('PTTL', lock) < tonumber(lease) then
      lock_set = redis.pcall('PEXPIRE', lock, lease)
    end
    local left = redis.call('PTTL', level)
    if left == -2 then
      level_set = redis.pcall('SET', level, '1', 'PX', lease)
    elseif left < tonumber(lease) then
      level_set = redis.pcall('PEXPIRE', level, lease)
    end
    if failed(level_set) or failed(lock_set) then
      ours = -1
    end
  end
  out[i] = ours
end
return out
