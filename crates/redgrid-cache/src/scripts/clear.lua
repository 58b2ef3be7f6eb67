-- clear.lua: no entries in a map cache any more. Behind packed.lua.
--
-- Returns  1
--
-- Work: O(1), the memory is freed in the background. Not to be sent twice: the second would take what came after the first.
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
together()
return 1
