-- renew.lua: extend the leases of several locks, or only check whether they are still held.
--
-- KEYS[i]        lock    hash; one field, the holder
-- ARGV[2i - 1]   holder
-- ARGV[2i]       lease   milliseconds from now; 0 only checks
-- Returns  a list: 1 held by this holder, for at least `lease`; 0 not held by it; -1 the key cannot
--          be read or written
--
-- Work: O(keys), writes each that is held. Sent twice, it renews twice; it never shortens, creates
-- or frees anything.
local out = {}
for i, key in ipairs(KEYS) do
  local holder, lease = ARGV[2 * i - 1], ARGV[2 * i]
  local held = redis.pcall('HEXISTS', key, holder)
  if type(held) == 'table' then
    held = -1
  elseif held == 1 and lease ~= '0' and redis.call('PTTL', key) < tonumber(lease) then
    if type(redis.pcall('PEXPIRE', key, lease)) == 'table' then
      held = -1
    end
  end
  out[i] = held
end
return out
