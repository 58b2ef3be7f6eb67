-- store.lua: stores the results of a search around a member.
--
-- KEYS[1]   destination   sorted set; deleted if there are no results
-- KEYS[2]   positions     sorted set
-- ARGV[1]   the member
-- ARGV[2..] the arguments of GEOSEARCHSTORE after the member
-- Returns   the number of results
--
-- Work: that of GEOSEARCHSTORE. If the member is absent, there are no results. Sent twice, it
-- stores the results twice.
if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  redis.call('DEL', KEYS[1])
  return 0
end
return redis.call('GEOSEARCHSTORE', KEYS[1], KEYS[2], 'FROMMEMBER', unpack(ARGV))
