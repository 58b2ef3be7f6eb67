-- leader_inspect.lua: return the elected leader.
--
-- KEYS[1]  lock    hash; one field, the holder
-- KEYS[2]  leader  hash: holder, term and id of the leader that has proclaimed itself
-- Returns  {left, term, id}  the leader, for `left` milliseconds unless its lease is renewed
--          {-2, '', ''}      no leader, or it has not proclaimed itself
--
-- Work: O(1), writes nothing. Sent twice, it returns twice.
local leader = redis.call('HMGET', KEYS[2], 'holder', 'term', 'id')
if leader[1] and leader[2] and leader[3] and redis.call('HEXISTS', KEYS[1], leader[1]) == 1 then
  return {redis.call('PTTL', KEYS[1]), leader[2], leader[3]}
end
return {-2, '', ''}
