-- raise_token.lua: raise a token counter to at least a token that is about to be returned.
--
-- KEYS[1]  token  string; the last token; expires 30 days after it
-- ARGV[1]  least  minimum value of the counter
-- Returns  the counter now: `least`, or more if a higher token was assigned meanwhile
--
-- Work: O(1), writes at most one key. Sent twice, it raises once.
if tonumber(redis.call('GET', KEYS[1]) or '0') < tonumber(ARGV[1]) then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', 2592000000)
end
return tonumber(redis.call('GET', KEYS[1]))
