-- audit.lua: return the newest entries of the record of actions.
--
-- KEYS[1]  record  stream
-- ARGV[1]  most    maximum number of entries
-- Returns  {{id, field, value, …}, …}  the newest entry first; at most 32 fields of an entry, and
--                                      the first 4,096 bytes of a value
--
-- Work: O(most), writes nothing. Sent twice, it returns twice.
local out = {}
for _, entry in ipairs(redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', ARGV[1])) do
  local row = {entry[1]}
  for at = 1, math.min(#entry[2], 64) do
    row[at + 1] = string.sub(entry[2][at], 1, 4096)
  end
  out[#out + 1] = row
end
return out
