-- delete.lua: delete a generator. Behind dedup.lua.
--
-- KEYS[2]  next        string; the first id of the next block
-- KEYS[3]  allocation  string; the number of ids of a block
-- Returns  {deleted}   how many of the two keys existed
--
-- Work: O(1), deletes two keys.
return answer({redis.call('DEL', KEYS[2], KEYS[3])})
