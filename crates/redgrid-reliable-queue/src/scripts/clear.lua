-- clear.lua: drop all messages, the dead among them, and what is remembered of deduplication ids. Settings and counts stay.
--
-- KEYS[2…11]  as queue.lua says
-- Returns     answer({how many messages there were})
--
-- Work: O(1): the server frees the memory in the background. Sent twice, it acts once.
local messages = redis.call('HLEN', KEYS[4])
-- Places first: what is in none is given to nobody.
for _, at in ipairs({5, 6, 7, 11, 8, 4, 3, 9, 10}) do
  redis.call('UNLINK', KEYS[at])
end
return answer({messages})
