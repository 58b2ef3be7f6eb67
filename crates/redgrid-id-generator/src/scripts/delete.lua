-- delete.lua: deletes a generator. Appended to dedup.lua.
--
-- KEYS[2]  next        string; the first id of the next block
-- KEYS[3]  allocation  string; the number of ids of a block
-- Returns  {deleted}   the number of keys that existed
--
-- Work: O(1), deletes two keys.
return answer({redis.call('DEL', KEYS[2], KEYS[3])})
