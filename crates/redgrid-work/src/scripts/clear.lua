-- clear.lua: drops all messages, including dead letters, and the deduplication ids. Settings and
-- counts stay.
--
-- KEYS[2…11]  as in queue.lua
-- Returns     answer({number of messages})
--
-- Work: O(1): the server frees the memory in the background. Sent twice, it acts once.
local messages = redis.call('HLEN', KEYS[4])
-- The sorted sets are removed first: a message in none of them is not delivered.
for _, at in ipairs({5, 6, 7, 11, 8, 4, 3, 9, 10}) do
  redis.call('UNLINK', KEYS[at])
end
return answer({messages})
