-- leader_renew.lua: extend the leases of several leaders, or only check whether they still lead.
--
-- KEYS[2i - 1]   lock    hash; one field, the holder
-- KEYS[2i]       leader  hash: the leader's proclamation
-- ARGV[2i - 1]   holder
-- ARGV[2i]       lease   milliseconds from now; 0 only checks
-- Returns  a list: 1 held by this holder, for at least `lease`; 0 not held by it; -1 the key cannot
--          be read or written
--
-- Work: O(keys), writes each that is held. Sent twice, it renews twice; it never shortens, creates
-- or frees anything.
local out = {}
for i = 1, #KEYS / 2 do
  local lock, holder, lease = KEYS[2 * i - 1], ARGV[2 * i - 1], ARGV[2 * i]
  local held = redis.pcall('HEXISTS', lock, holder)
  if type(held) == 'table' then
    held = -1
  elseif held == 1 and lease ~= '0' and redis.call('PTTL', lock) < tonumber(lease) then
    if type(redis.pcall('PEXPIRE', lock, lease)) == 'table' then
      held = -1
    else
      -- The proclamation is valid only with the lock. A failure here loses the proclaimed id, not
      -- the leadership.
      redis.pcall('PEXPIRE', KEYS[2 * i], lease)
    end
  end
  out[i] = held
end
return out
