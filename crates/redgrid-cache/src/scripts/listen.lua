-- listen.lua: lets the changes of a map cache be published. Appended to packed.lua.
--
-- Returns  1 they were not published before, 0 they were
--
-- Work: O(1). Sent twice, the second transmission finds the flag set by the first.
local is_new = redis.call('HSET', KEYS[5], 'has-listeners', '1')
sync_expiry()
return is_new
