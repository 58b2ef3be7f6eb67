-- release.lua: a permit for the semaphore by which Redisson counts who has cleared its cache.
--
-- KEYS[1]  semaphore
-- ARGV[1]  publish  PUBLISH or SPUBLISH
-- ARGV[2]  its channel
-- Returns  how many permits it has
--
-- Who asked deletes it; where it has no lifetime, as with Redisson 3.x and where the asker has gone, it gets a minute.
-- Work: O(1). Not to be sent twice: somebody would count for two.
local permits = redis.call('INCRBY', KEYS[1], 1)
if redis.call('PTTL', KEYS[1]) == -1 then
  redis.call('PEXPIRE', KEYS[1], 60000)
end
redis.call(ARGV[1], ARGV[2], permits)
return permits
