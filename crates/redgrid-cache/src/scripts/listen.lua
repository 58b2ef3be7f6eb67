-- listen.lua: changes of a map cache are to be published. Behind packed.lua.
--
-- Returns  1 they were not, 0 they were
--
-- Work: O(1). Sent twice, the second finds what the first has done.
local new = redis.call('HSET', KEYS[5], 'has-listeners', '1')
together()
return new
