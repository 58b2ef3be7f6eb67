-- set_waiting.lua: tell those who hold names that somebody waits who gets no messages.
--
-- KEYS     any number of marks, of one slot
-- ARGV[1]  lifetime  milliseconds
-- Returns  how many marks there are
--
-- Work: O(keys), writes each. Sent twice, it marks a little longer.
for _, key in ipairs(KEYS) do
  redis.call('SET', key, '1', 'PX', ARGV[1])
end
return #KEYS
