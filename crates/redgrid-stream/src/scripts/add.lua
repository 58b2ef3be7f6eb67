-- add.lua: adds an entry to a stream, and wakes waiters for new entries. Appended to dedup.lua or
-- plain.lua of redgrid-core.
--
-- KEYS[2]  stream
-- ARGV[4]  publish  PUBLISH or SPUBLISH
-- ARGV[5]  channel  where the id is published
-- ARGV[6…] the arguments of XADD after the key
-- Answers  {id}     the entry was added
--          {}       the stream does not exist, and NOMKSTREAM was given
--
-- Work: that of XADD, which is the first command that can fail. A rejected PUBLISH is not an error,
-- because waiters also poll.
local id = redis.call('XADD', KEYS[2], unpack(ARGV, 6))
if not id then
  return answer({})
end
redis.pcall(ARGV[4], ARGV[5], id)
return answer({id})
