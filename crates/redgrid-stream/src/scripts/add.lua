-- add.lua: add an entry to a stream, and wake who waits for one. Behind once.lua or plain.lua.
--
-- KEYS[2]  stream   its entries
-- ARGV[4]  publish  PUBLISH or SPUBLISH
-- ARGV[5]  channel  where its id is told
-- ARGV[6…] what XADD takes behind the key
-- Answers  {id}     the entry is there
--          {}       there is no such stream, and none was to be made
--
-- Work: that of XADD, which is the first that can fail. A message that is refused is no failure: who waits looks by itself.
local id = redis.call('XADD', KEYS[2], unpack(ARGV, 6))
if not id then
  return answer({})
end
redis.pcall(ARGV[4], ARGV[5], id)
return answer({id})
