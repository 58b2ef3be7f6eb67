-- find.lua: the first member of a part of a priority queue whose element is this one.
--
-- KEYS[1]  sorted set of a priority queue
-- ARGV[1]  from where: - or ( and the member in front
-- ARGV[2]  element
-- ARGV[3]  how many are looked at
-- Returns  {1, member}  this one
--          {0, member}  none of these, of which this is the last
--          {0, nothing} none of these, and there are no more
--
-- Work: O(log n + those that are looked at); only reads. Sent twice, it looks twice.
local members = redis.call('ZRANGE', KEYS[1], ARGV[1], '+', 'BYLEX', 'LIMIT', 0, ARGV[3])
for _, member in ipairs(members) do
  if #member == #ARGV[2] + 16 and string.sub(member, 17) == ARGV[2] then
    return {1, member}
  end
end
return {0, #members == tonumber(ARGV[3]) and members[#members]}
