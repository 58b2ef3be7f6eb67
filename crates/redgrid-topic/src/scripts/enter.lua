-- enter.lua: be a subscriber for a lease from now on.
--
-- ARGV[1]  subscriber
-- ARGV[2]  lease       in milliseconds
-- ARGV[3]  from        where a new one begins: behind this id, `$` behind the newest message; empty where there is to be one already
-- Returns  {0, id}     it was one; all up to this id is acknowledged
--          {1, id}     it is a new one, and begins behind this id
--          {-1, '0-0'} it is none
--
-- Work: O(groups). Takes out up to 10 whose time is over. Sent twice, it acts once.
local last = groups()[ARGV[1]]
if not last and ARGV[3] == '' then
  return {-1, '0-0'}
end
-- Where this may not be written, nothing is.
redis.call('ZADD', KEYS[2], now + tonumber(ARGV[2]), ARGV[1])
local fresh = 0
if not last then
  last, fresh = newest(), 1
  -- A primary that was replaced may give ids anew that another one gave: none of those is to be skipped.
  if ARGV[3] ~= '$' and is_before(ARGV[3], last) then
    last = ARGV[3]
  end
  local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], last, 'MKSTREAM')
  if made.err then
    redis.call('ZREM', KEYS[2], ARGV[1])
    return made
  end
end
bury()
return {fresh, last}
