-- find.lua: searches a range of a priority queue for the first member with an element.
--
-- KEYS[1]  sorted set of a priority queue
-- ARGV[1]  start of the range: "-", or "(" and the last member that was compared
-- ARGV[2]  element
-- ARGV[3]  maximum number of members to compare
-- Returns  {1, member}  found
--          {0, member}  not found; this is the last member that was compared
--          {0, nothing} not found, and there are no more members
--
-- Work: O(log n + compared); read-only. Sent twice, it reads twice.
local members = redis.call('ZRANGE', KEYS[1], ARGV[1], '+', 'BYLEX', 'LIMIT', 0, ARGV[3])
for _, member in ipairs(members) do
  if #member == #ARGV[2] + 16 and string.sub(member, 17) == ARGV[2] then
    return {1, member}
  end
end
return {0, #members == tonumber(ARGV[3]) and members[#members]}
