-- lock.lua: return the holders of a lock, and its remaining lease.
--
-- KEYS[1]  lock  hash; its fields are the holders
-- ARGV[1]  most  maximum number of holders; if there are more, a random selection
-- Returns  {'lock', left, n, mode, holder, entries, …}  as text; `left` is the PTTL; `n` is the
--                                number of holders; `mode` is '' unless it is a read-write lock;
--                                `entries` is '' if the value is too long for a number
--          {'none'}              nothing is stored there
--          {type, left, n}       it is not a lock: a value of another type, or `hash` with `n`
--                                fields; the type is '' without the permission for TYPE
--
-- Work: O(most), writes nothing. Of a hash that is not a lock, eight fields are read, without their
-- values. Sent twice, it returns twice.
local n = redis.pcall('HLEN', KEYS[1])
if type(n) == 'table' then
  if not string.find(n.err, 'WRONGTYPE', 1, true) then
    return n
  end
  return {redis.pcall('TYPE', KEYS[1]).ok or '', tostring(redis.call('PTTL', KEYS[1])), '0'}
end
if n == 0 then
  return {'none'}
end
local left, mode = tostring(redis.call('PTTL', KEYS[1])), mode_of(KEYS[1])
if not holder_among(sample(KEYS[1], n), mode) then
  return {'hash', left, tostring(n)}
end
local most = tonumber(ARGV[1])
local fields = n <= most and redis.call('HKEYS', KEYS[1]) or redis.call('HRANDFIELD', KEYS[1], most)
local out = {'lock', left, tostring(mode == '' and n or n - 1), mode}
for _, field in ipairs(fields) do
  if mode == '' or field ~= 'mode' then
    out[#out + 1] = field
    out[#out + 1] = redis.call('HSTRLEN', KEYS[1], field) <= 20 and redis.call('HGET', KEYS[1], field) or ''
  end
end
return out
