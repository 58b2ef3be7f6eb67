-- renew.lua: lengthen the leases of many locks, or only look whether they are still held.
--
-- KEYS[i]        lock    hash; one field, the holder
-- ARGV[2i - 1]   holder
-- ARGV[2i]       lease   milliseconds from now; 0 only looks
-- Returns  a list: 1 it is this holder's, for `lease` at least; 0 it is not; -1 it can not be read or written
--
-- Work: O(keys), writes each of ours. Sent twice, it renews twice; it never shortens, creates or frees anything.
local out = {}
for i, key in ipairs(KEYS) do
  local holder, lease = ARGV[2 * i - 1], ARGV[2 * i]
  local ours = redis.pcall('HEXISTS', key, holder)
  if type(ours) == 'table' then
    ours = -1
  elseif ours == 1 and lease ~= '0' and redis.call('PTTL', key) < tonumber(lease) then
    if type(redis.pcall('PEXPIRE', key, lease)) == 'table' then
      ours = -1
    end
  end
  out[i] = ours
end
return out
