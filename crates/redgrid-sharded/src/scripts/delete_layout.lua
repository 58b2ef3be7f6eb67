-- delete_layout.lua: deletes the shard layout of a sharded object, if it is the expected one.
--
-- KEYS[1]  the shard layout   hash
-- ARGV     fields and the values they must have
-- Returns  1: deleted, 0: another layout or none is stored
--
-- Work: O(1), deletes one key. Sent twice, the second copy does nothing.
for i = 1, #ARGV, 2 do
  if redis.call('HMGET', KEYS[1], ARGV[i])[1] ~= ARGV[i + 1] then
    return 0
  end
end
return redis.call('DEL', KEYS[1])
