-- raise.lua: have a counter of tokens be no lower than a token that is about to be given.
--
-- KEYS[1]  token  string; the last token that was given; ends 30 days after that
-- ARGV[1]  least
-- Returns  what it is now: that, or higher where a higher one was given meanwhile
--
-- Work: O(1), writes one key at most. Sent twice, it raises once.
if tonumber(redis.call('GET', KEYS[1]) or '0') < tonumber(ARGV[1]) then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', 2592000000)
end
return tonumber(redis.call('GET', KEYS[1]))
