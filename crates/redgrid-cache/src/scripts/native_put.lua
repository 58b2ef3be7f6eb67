-- native_put.lua: sets fields of a hash, and their lifetimes.
--
-- KEYS[1]  map, a hash
-- ARGV[1]  the condition for each key: any, absent, present or equal
-- ARGV[2]  1 to return the previous values
-- ARGV[3]  lifetime: milliseconds from now, @ and milliseconds since 1970, = for the current one, 0
--          for none
-- ARGV[4…] for each key the key and its value, 500 at most; with `equal` one key, its value, and
--          the expected value
-- Returns  for each key {0 unchanged, 1 new, 2 replaced; the previous value, or nothing}
--
-- Work: O(keys). Not to be sent twice: the reply to the second transmission would describe the
-- effect of the first. If the server has no lifetimes of fields, or the user may not set them, it
-- refuses before anything is written. On a server without them, `=` means `0`: no field has a
-- lifetime.
local results = {}
local step = ARGV[1] == 'equal' and 3 or 2
local lifetime = ARGV[3]
if lifetime ~= '0' then
  local reply = redis.pcall('HPEXPIRETIME', KEYS[1], 'FIELDS', 1, ARGV[4])
  local error_text = type(reply) == 'table' and reply.err
  if error_text and lifetime == '=' and string.find(error_text, 'nknown') then
    lifetime = '0'
  elseif error_text then
    return reply
  elseif not redis.acl_check_cmd('HPEXPIREAT', KEYS[1], 1, 'FIELDS', 1, 'f') or not redis.acl_check_cmd('HPEXPIRE', KEYS[1], 1, 'FIELDS', 1, 'f') then
    return redis.error_reply('NOPERM this user may give fields no lifetimes, by HPEXPIRE and HPEXPIREAT; nothing is changed')
  end
end
for i = 4, #ARGV, step do
  local field, value = ARGV[i], ARGV[i + 1]
  local previous = redis.call('HGET', KEYS[1], field)
  local returned = ARGV[2] == '1' and previous or false
  local matches = ARGV[1] == 'any' or (ARGV[1] == 'absent' and not previous) or (ARGV[1] == 'present' and previous)
    or (ARGV[1] == 'equal' and previous == ARGV[i + 2])
  if matches then
    local expiry = nil
    if lifetime == '=' and previous then
      expiry = (redis.call('HPEXPIRETIME', KEYS[1], 'FIELDS', 1, field) or {-1})[1]
    elseif string.sub(lifetime, 1, 1) == '@' then
      expiry = string.sub(lifetime, 2)
    end
    redis.call('HSET', KEYS[1], field, value)
    if expiry and tonumber(expiry) >= 0 then
      redis.call('HPEXPIREAT', KEYS[1], expiry, 'FIELDS', 1, field)
    elseif lifetime ~= '0' and lifetime ~= '=' then
      redis.call('HPEXPIRE', KEYS[1], lifetime, 'FIELDS', 1, field)
    end
    results[#results + 1] = {previous and 2 or 1, returned}
  else
    results[#results + 1] = {0, returned}
  end
end
return results
