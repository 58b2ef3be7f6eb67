-- delete.lua: forget how far ids went. Behind once.lua.
--
-- KEYS[2]  next        string; the first id of the next block
-- KEYS[3]  allocation  string; how many ids a block has
-- Returns  {there}     how many of the two were there
--
-- Work: O(1), deletes two keys.
return answer({redis.call('DEL', KEYS[2], KEYS[3])})
