-- restart.lua: deletes a cursor. Appended to cursor.lua.
--
-- KEYS[1]  cursor of Redisson: the index of the next page, -1 after the last page
-- Returns  1 it is deleted; 0 there was none
--
-- Work: O(1). Not to be sent twice: a stream that others have started in between would start again.
local _, refusal = read_cursor(KEYS[1])
if refusal then
  return refusal
end
return redis.call('DEL', KEYS[1])
