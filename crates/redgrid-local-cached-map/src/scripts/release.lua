-- release.lua: releases a permit of the semaphore with which Redisson counts cleared caches.
--
-- KEYS[1]  semaphore
-- ARGV[1]  publish  PUBLISH or SPUBLISH
-- ARGV[2]  its channel
-- Returns  number of available permits
--
-- The requesting client deletes the semaphore. A semaphore without a lifetime gets one of a minute:
-- Redisson 3.x sets none, and INCRBY creates the key anew if the client has already deleted it.
-- Work: O(1). Not to be sent twice: one cache would count for two.
local permits = redis.call('INCRBY', KEYS[1], 1)
if redis.call('PTTL', KEYS[1]) == -1 then
  redis.call('PEXPIRE', KEYS[1], 60000)
end
redis.call(ARGV[1], ARGV[2], permits)
return permits
