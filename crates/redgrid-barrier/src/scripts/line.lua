-- line.lua: what the scripts of `Notify` and `Condition` have in common, behind seats.lua: a line of those who wait to be notified.
--
-- `k[1]` is the hash: `next` numbers the places, `round` counts the notifications of all, `permit` is 1 when one is kept for who comes
-- next. A seat's number is the round in which it came, its mark `w` (waits), `n` (notified, and has not said that it took it), `d`
-- (took it), `a` (was notified with all others) or `l` (has left). `k[2]` is a sorted set, the line by places; `k[3]` another, of those
-- who are notified, by the end of the lease: one who dies with a notification passes it on.

-- Notifies the first of the line who lives; keeps a permit where nobody does and one is to be kept.
local function give(publish, channel, stores)
  while true do
    local id = redis.call('ZRANGE', k[2], 0, 0)[1]
    if not id then
      if stores == '1' then
        redis.call('HSET', k[1], 'permit', '1')
      end
      return 0
    end
    redis.call('ZREM', k[2], id)
    local turn, came, mark, till = seat(id)
    if mark == 'w' and till > now then
      sit(id, turn, came, 'n', till)
      redis.call('ZADD', k[3], till, id)
      redis.call(publish, channel, '1')
      return 1
    end
    redis.call('HDEL', k[1], id)
  end
end

-- What the dead were notified of goes to others.
local function pass_on(publish, channel, stores)
  for _ in ipairs(bury(k[3])) do
    give(publish, channel, stores)
  end
end
