-- cursor.lua: in front of the scripts about a cursor.
--
-- Where a cursor is, 0 where there is none; and a refusal where what is there is none: a cursor is a whole number, and has a lifetime.
local function where(key)
  local has = redis.call('GET', key)
  if not has then
    return 0
  elseif not (has == '-1' or (#has <= 15 and string.match(has, '^%d+$'))) or redis.call('PTTL', key) < 0 then
    return nil, redis.error_reply('ERR the key of the cursor holds something else: a cursor is an index with a lifetime')
  end
  return tonumber(has)
end
