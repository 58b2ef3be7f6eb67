-- rw_renew.lua: extend the leases of several readers, or only check whether they still hold.
--
-- KEYS[2i - 1]  lock     hash: `mode`, and a field for each holder
-- KEYS[2i]      timeout  string; present while the reader's lease lasts
-- ARGV[2i - 1]  reader
-- ARGV[2i]      lease    milliseconds from now; 0 only checks
-- Returns  a list: 1 the reader holds, for at least `lease`; 0 it does not; -1 the keys cannot be
--          read or written
--
-- A full server (maxmemory) refuses SET but not PEXPIRE, so SET is used only for a timeout key that
-- is missing.
--
-- Work: O(keys), writes each that is held. Sent twice, it renews twice; it never shortens, and
-- frees nothing.
local function failed(reply)
  return type(reply) == 'table' and reply.err
end
local out = {}
for i = 1, #KEYS / 2 do
  local lock, timeout, lease = KEYS[2 * i - 1], KEYS[2 * i], ARGV[2 * i]
  local held = redis.pcall('HEXISTS', lock, ARGV[2 * i - 1])
  if type(held) == 'table' then
    held = -1
  elseif held == 1 and lease ~= '0' then
    local timeout_reply, lock_reply
    if redis.call('PTTL', lock) < tonumber(lease) then
      lock_reply = redis.pcall('PEXPIRE', lock, lease)
    end
    local left = redis.call('PTTL', timeout)
    if left == -2 then
      timeout_reply = redis.pcall('SET', timeout, '1', 'PX', lease)
    elseif left < tonumber(lease) then
      timeout_reply = redis.pcall('PEXPIRE', timeout, lease)
    end
    if failed(timeout_reply) or failed(lock_reply) then
      held = -1
    end
  end
  out[i] = held
end
return out
