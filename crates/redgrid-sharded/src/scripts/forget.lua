-- forget.lua: forgets how a sharded object is divided, if it is still divided so.
--
-- KEYS[1]  how it is divided   hash
-- ARGV     fields and the values they must have
-- Returns  1: forgotten, 0: it is divided otherwise, or nothing is said
--
-- Work: O(1), deletes one key. Sent twice, the second does nothing.
for at = 1, #ARGV, 2 do
  if redis.call('HMGET', KEYS[1], ARGV[at])[1] ~= ARGV[at + 1] then
    return 0
  end
end
return redis.call('DEL', KEYS[1])
