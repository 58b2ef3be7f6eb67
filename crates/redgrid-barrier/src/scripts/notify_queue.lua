-- notify_queue.lua: the common part of the scripts of `Notify` and `Condition`, behind
-- participants.lua: the queue of waiters.
--
-- `k[1]` is the hash: `next` numbers the queue positions, `round` counts the notifications of all,
-- `permit` is 1 if one is stored for the next waiter. A participant's value is the round in which
-- it joined. Its state is one of:
-- - `w`: it waits; if it has no queue position, it was passed over
-- - `n`: it is notified, and has not confirmed that it consumed the notification
-- - `d`: it has consumed the notification
-- - `a`: it was notified with all others, or must check the state itself
-- - `l`: it has left
--
-- `k[2]` is a sorted set, the queue by positions. `k[3]` is a sorted set of the notified
-- participants, by the end of the lease: if one dies, its notification goes to the next waiter. The
-- message for a notified participant is its id; `0` is for all.

-- Removes a waiter from the head of the queue if its lease has expired. If it is alive after all,
-- it joins the queue again. Without stored permits (a condition) it must check the state itself
-- then, because a notification may have been meant for it.
local function remove_if_expired(id, store_permit)
  local generation, joined_in, state, until_ms = participant(id)
  if state == 'w' and until_ms > now then
    return false
  end
  redis.call('ZREM', k[2], id)
  if state == 'w' and store_permit ~= '1' then
    set_participant(id, generation, joined_in, 'a', until_ms)
  end
  return true
end

-- Notifies the first live waiter of the queue. Without one, stores a permit if permits are stored.
local function notify_next(publish, channel, store_permit)
  while true do
    local id = redis.call('ZRANGE', k[2], 0, 0)[1]
    if not id then
      if store_permit == '1' then
        redis.call('HSET', k[1], 'permit', '1')
      end
      return 0
    end
    if not remove_if_expired(id, store_permit) then
      local generation, joined_in, _, until_ms = participant(id)
      redis.call('ZREM', k[2], id)
      set_participant(id, generation, joined_in, 'n', until_ms)
      redis.call('ZADD', k[3], until_ms, id)
      redis.pcall(publish, channel, id)
      return 1
    end
  end
end

-- Passes notifications of expired participants on. If such a participant is alive after all, it
-- joins the queue again, or keeps the notification if no other waiter received it.
local function pass_on_expired(publish, channel, store_permit)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', k[3], '-inf', now)) do
    redis.call('ZREM', k[3], id)
    local passed_on = notify_next(publish, channel, store_permit) == 1 or store_permit == '1'
    local generation, joined_in, _, until_ms = participant(id)
    if generation then
      set_participant(id, generation, joined_in, passed_on and 'w' or 'a', until_ms)
    end
  end
end
