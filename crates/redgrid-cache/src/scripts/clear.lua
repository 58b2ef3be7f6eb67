-- clear.lua: removes all entries of a map cache. Appended to packed.lua.
--
-- Returns  1
--
-- Work: O(1), the memory is freed in the background. Not to be sent twice: the second transmission
-- would remove entries that were added after the first.
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
sync_expiry()
return 1
