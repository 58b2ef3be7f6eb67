-- set.lua: sets the settings of a queue.
--
-- KEYS[2]   queue   hash
-- ARGV[4]   `1`: only if there are no settings
-- ARGV[5…]  names and values; an empty value unsets the setting
-- Returns   answer({1})  the settings are set
--           answer({0})  there were settings, and they are unchanged
--
-- Work: O(settings). Sent twice, it acts once.
if ARGV[4] == '1' and redis.call('HEXISTS', KEYS[2], 'settings') == 1 then
  return answer({0})
end
redis.call('HSET', KEYS[2], 'settings', '1')
-- The next change or receive allows the fast path again, if the settings do: see queue.lua.
redis.call('HDEL', KEYS[2], 'fast_until')
for at = 5, #ARGV, 2 do
  if ARGV[at + 1] == '' then
    redis.call('HDEL', KEYS[2], ARGV[at])
  else
    redis.call('HSET', KEYS[2], ARGV[at], ARGV[at + 1])
  end
end
return answer({1})
