-- leader_look.lua: who has been elected.
--
-- KEYS[1]  lock      hash; one field, the holder
-- KEYS[2]  leader    hash: holder, term and id of the leader that has proclaimed
-- Returns  {left, term, id}  it is leader, for `left` milliseconds unless that is renewed
--          {-2, '', ''}      nobody is, or has said so
--
-- Work: O(1), writes nothing. Sent twice, it answers twice.
local told = redis.call('HMGET', KEYS[2], 'holder', 'term', 'id')
if told[1] and told[2] and told[3] and redis.call('HEXISTS', KEYS[1], told[1]) == 1 then
  return {redis.call('PTTL', KEYS[1]), told[2], told[3]}
end
return {-2, '', ''}
