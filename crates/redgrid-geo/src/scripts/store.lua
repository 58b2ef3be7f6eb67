-- store.lua: what is found around a member becomes another set.
--
-- KEYS[1]   where it goes   sorted set; deleted where nothing is found
-- KEYS[2]   places          sorted set
-- ARGV[1]   the member
-- ARGV[2..] what GEOSEARCHSTORE is told behind the member
-- Returns   how many are found
--
-- Work: as GEOSEARCHSTORE. Around a member that is not there, nothing is found. Sent twice, it is made twice.
if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  redis.call('DEL', KEYS[1])
  return 0
end
return redis.call('GEOSEARCHSTORE', KEYS[1], KEYS[2], 'FROMMEMBER', unpack(ARGV))
