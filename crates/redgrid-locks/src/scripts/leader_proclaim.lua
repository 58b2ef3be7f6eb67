-- leader_proclaim.lua: proclaim the elected leader.
--
-- KEYS[1]  lock      hash; one field, the holder
-- KEYS[2]  leader    hash: holder, term and id of the leader; valid while the lock has that holder
-- ARGV[1]  holder
-- ARGV[2]  term      the token of the holder's grant
-- ARGV[3]  id        the proclaimed id
-- ARGV[4]  publish   PUBLISH or SPUBLISH
-- ARGV[5]  channel   where observers subscribe; the message is the term
-- Returns  1  proclaimed
--          0  the lock is not held by this holder
--
-- Work: O(1), writes one key. Sent twice, it proclaims the same twice; after the end of the hold it
-- does nothing.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('HSET', KEYS[2], 'holder', ARGV[1], 'term', ARGV[2], 'id', ARGV[3])
redis.call('PEXPIRE', KEYS[2], math.max(redis.call('PTTL', KEYS[1]), 1))
redis.pcall(ARGV[4], ARGV[5], ARGV[2])
return 1
