-- search.lua: what is found around a member.
--
-- KEYS[1]   places   sorted set
-- ARGV[1]   the member
-- ARGV[2..] what GEOSEARCH is told behind the member
-- Returns   as GEOSEARCH
--
-- Work: as GEOSEARCH. Around a member that is not there, nothing is found. Only reads.
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return {}
end
return redis.call('GEOSEARCH', KEYS[1], 'FROMMEMBER', unpack(ARGV))
