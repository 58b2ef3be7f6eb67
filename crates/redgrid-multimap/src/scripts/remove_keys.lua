-- remove_keys.lua: keys of a multimap less, with all their values. Behind head.lua.
--
-- KEYS[2…] the values of each key, sets or lists
-- ARGV[2]  any, or over: only those whose lifetime is over
-- ARGV[3…] each key, and its hash
-- Returns  {how many were in the map, and not over; keys that are over}
--
-- Work: O(ARGV), some hundreds; the memory is freed in the background. Sent twice, it removes what others have inserted meanwhile, but for what is
-- over: that stays so. Where the values may not be removed the key stays.
local wrong = refused()
if wrong then
  return wrong
end
local removed = 0
for i = 2, #KEYS - (ends and 1 or 0) do
  local key, hash = ARGV[2 * i - 1], ARGV[2 * i]
  if over(key) then
    drop(key, KEYS[i])
  elseif ARGV[2] == 'any' then
    local was = redis.call('HDEL', KEYS[1], key)
    local done = redis.pcall('UNLINK', KEYS[i])
    if type(done) == 'table' then
      if was == 1 then
        redis.call('HSET', KEYS[1], key, hash)
      end
      return done
    end
    forget(key)
    removed = removed + was
  end
end
forget()
return {removed, waste()}
