-- leader_resign_many.lua: release several leaderships, and notify candidates and observers.
--
-- KEYS[2i - 1]  lock       hash; one field, the holder
-- KEYS[2i]      leader     hash: the leader's proclamation
-- ARGV[1]       publish    PUBLISH or SPUBLISH
-- ARGV[3i - 1]  holder
-- ARGV[3i]      channel    where its candidates subscribe
-- ARGV[3i + 1]  observers  channel where its observers subscribe
-- Returns  a list: 1 it was this holder's, and is free; 0 it was not; -1 the key cannot be written
--
-- Work: O(keys), writes each that is held. Sent twice, it returns 0 the second time.
local out = {}
for i = 1, #KEYS / 2 do
  local freed = redis.pcall('HDEL', KEYS[2 * i - 1], ARGV[3 * i - 1])
  if type(freed) == 'table' then
    freed = -1
  elseif freed == 1 then
    if redis.pcall('HGET', KEYS[2 * i], 'holder') == ARGV[3 * i - 1] then
      redis.pcall('DEL', KEYS[2 * i])
    end
    redis.pcall(ARGV[1], ARGV[3 * i + 1], '0')
    redis.pcall(ARGV[1], ARGV[3 * i], '0')
  end
  out[i] = freed
end
return out
