-- search.lua: searches around a member.
--
-- KEYS[1]   positions   sorted set
-- ARGV[1]   the member
-- ARGV[2..] the arguments of GEOSEARCH after the member
-- Returns   the reply of GEOSEARCH
--
-- Work: that of GEOSEARCH. If the member is absent, there are no results. Read-only.
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return {}
end
return redis.call('GEOSEARCH', KEYS[1], 'FROMMEMBER', unpack(ARGV))
