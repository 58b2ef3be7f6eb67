-- event.lua: the common part of the scripts of an event, behind participants.lua.
--
-- `k[1]` is its hash: `set` is 1 from a `set` until a `reset`. `until` is the end of the lifetime,
-- 0 if there is none. `times` counts how often the event became set. It outlives reset and
-- lifetime, so that a waiter that missed the message still detects that the event was set.

local function is_set()
  return field('set') == 1 and (field('until') == 0 or field('until') > now)
end
