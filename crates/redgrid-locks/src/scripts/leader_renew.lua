-- leader_renew.lua: lengthen the leases of many leaders, or only look whether they still lead.
--
-- KEYS[2i - 1]   lock    hash; one field, the holder
-- KEYS[2i]       leader  hash: what the leader has proclaimed
-- ARGV[2i - 1]   holder
-- ARGV[2i]       lease   milliseconds from now; 0 only looks
-- Returns  a list: 1 it is this holder's, for `lease` at least; 0 it is not; -1 it can not be read or written
--
-- Work: O(keys), writes each of ours. Sent twice, it renews twice; it never shortens, creates or frees anything.
local out = {}
for i = 1, #KEYS / 2 do
  local lock, holder, lease = KEYS[2 * i - 1], ARGV[2 * i - 1], ARGV[2 * i]
  local ours = redis.pcall('HEXISTS', lock, holder)
  if type(ours) == 'table' then
    ours = -1
  elseif ours == 1 and lease ~= '0' and redis.call('PTTL', lock) < tonumber(lease) then
    if type(redis.pcall('PEXPIRE', lock, lease)) == 'table' then
      ours = -1
    else
      -- What is proclaimed is believed only beside the lock: a failure here loses a name, not a leader.
      redis.pcall('PEXPIRE', KEYS[2 * i], lease)
    end
  end
  out[i] = ours
end
return out
