-- cursor.lua: prelude of the scripts that use a cursor. A cursor is an integer with a TTL.
--
-- Returns the position of a cursor, or 0 if the key does not exist. If the key is not a cursor, it
--         returns nil and an error.
local function read_cursor(key)
  local stored = redis.call('GET', key)
  if not stored then
    return 0
  elseif not (stored == '-1' or (#stored <= 15 and string.match(stored, '^%d+$'))) or redis.call('PTTL', key) < 0 then
    return nil, redis.error_reply('ERR the key of the cursor holds something else: a cursor is an index with a lifetime')
  end
  return tonumber(stored)
end
