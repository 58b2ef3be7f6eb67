-- restart.lua: a cursor goes.
--
-- KEYS[1]  cursor: the index of the next page, -1 behind the last; Redisson's
-- Returns  1 it has gone; 0 there was none
--
-- Work: O(1). Not to be sent twice: what others have begun in between would begin anew.
local _, refusal = where(KEYS[1])
if refusal then
  return refusal
end
return redis.call('DEL', KEYS[1])
