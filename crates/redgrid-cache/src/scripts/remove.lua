-- remove.lua: removes keys of a map cache. Appended to packed.lua.
--
-- ARGV[6]  1 to return the previous values, 0 not to, equal to remove one key only if it has the
--          expected value
-- ARGV[7…] keys, 500 at most; with `equal` one key and the expected value
-- Returns  for each key {1 if it was removed or 0; the previous value, or nothing}
--
-- Work: O(keys * log n); removes up to 100 expired entries. Not to be sent twice: the second
-- transmission would find nothing.
local refusal = precheck()
if refusal then
  return refusal
end
purge(MAX_REMOVED)
local results = {}
for i = 7, ARGV[6] == 'equal' and 7 or #ARGV do
  local field = ARGV[i]
  local previous, _, expired = read_live(field)
  if expired then
    delete_entry(field)
    publish_event(EXPIRED, field, expired)
  end
  local removes = previous and (ARGV[6] ~= 'equal' or previous == ARGV[8])
  if removes then
    delete_entry(field)
    publish_event(REMOVED, field, previous)
  end
  if KEYS[6] and (removes or not previous) then
    redis.call('DEL', KEYS[5 + i - 6])
  end
  results[#results + 1] = {removes and 1 or 0, ARGV[6] == '1' and previous or false}
end
sync_expiry()
return results
