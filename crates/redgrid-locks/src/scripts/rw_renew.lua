-- rw_renew.lua: lengthen the leases of many readers, or only look whether they are still in.
--
-- KEYS[2i - 1]  lock    hash: `mode`, and a field for each holder
-- KEYS[2i]      level   string; present while the reader's lease lasts
-- ARGV[2i - 1]  reader
-- ARGV[2i]      lease   milliseconds from now; 0 only looks
-- Returns  a list: 1 the reader is in, for `lease` at least; 0 it is not; -1 it can not be read or written
--
-- Work: O(keys), writes each of ours. Sent twice, it renews twice; it never shortens, and frees nothing.
local out = {}
for i = 1, #KEYS / 2 do
  local lock, level, lease = KEYS[2 * i - 1], KEYS[2 * i], ARGV[2 * i]
  local ours = redis.pcall('HEXISTS', lock, ARGV[2 * i - 1])
  if type(ours) == 'table' then
    ours = -1
  elseif ours == 1 and lease ~= '0' then
    local set = true
    if redis.call('PTTL', level) < tonumber(lease) then
      set = redis.pcall('SET', level, '1', 'PX', lease)
    end
    if redis.call('PTTL', lock) < tonumber(lease) then
      local bounded = redis.pcall('PEXPIRE', lock, lease)
      set = type(bounded) == 'number' and set
    end
    -- A status is a table, too; an error has words.
    if not set or (type(set) == 'table' and set.err) then
      ours = -1
    end
  end
  out[i] = ours
end
return out
