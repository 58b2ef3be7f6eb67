-- line.lua: what the scripts of `Notify` and `Condition` have in common, behind seats.lua: a line of those who wait to be notified.
--
-- `k[1]` is the hash: `next` numbers the places, `round` counts the notifications of all, `permit` is 1 when one is kept for who comes
-- next. A seat's number is the round in which it came, its mark `w` (waits; without a place in the line, where it was passed over), `n`
-- (notified, and has not said that it took it), `d` (took it), `a` (was notified with all others, or is to look for itself) or `l` (has
-- left). `k[2]` is a sorted set, the line by places; `k[3]` another, of those who are notified, by the end of the lease: one who dies
-- with a notification passes it on. Who is notified is told by its id on the channel, `0` there is for all.

-- Takes the first out of the line where that one stood longer than its lease. It stands in line again if it lives after all; where
-- nothing is kept (a condition) it is to look for itself then, as something may have been for it.
local function passes_over(id, stores)
  local turn, came, mark, till = seat(id)
  if mark == 'w' and till > now then
    return false
  end
  redis.call('ZREM', k[2], id)
  if mark == 'w' and stores ~= '1' then
    sit(id, turn, came, 'a', till)
  end
  return true
end

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
    if not passes_over(id, stores) then
      local turn, came, _, till = seat(id)
      redis.call('ZREM', k[2], id)
      sit(id, turn, came, 'n', till)
      redis.call('ZADD', k[3], till, id)
      redis.pcall(publish, channel, id)
      return 1
    end
  end
end

-- What the dead were notified of goes to others. One that lives after all stands in line again; where nobody else had it, it is its own.
local function pass_on(publish, channel, stores)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', k[3], '-inf', now)) do
    redis.call('ZREM', k[3], id)
    local has_gone = give(publish, channel, stores) == 1 or stores == '1'
    local turn, came, _, till = seat(id)
    if turn then
      sit(id, turn, came, has_gone and 'w' or 'a', till)
    end
  end
end
