-- set_waiting.lua: sets the flags by which lock holders learn of waiters that receive no messages.
--
-- KEYS     any number of waiter flags, all in one slot
-- ARGV[1]  lifetime  milliseconds
-- Returns  the number of flags
--
-- Work: O(keys), writes each key. Sent twice, the flags last a little longer.
for _, key in ipairs(KEYS) do
  redis.call('SET', key, '1', 'PX', ARGV[1])
end
return #KEYS
