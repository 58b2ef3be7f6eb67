-- event.lua: what the scripts of an event have in common, behind seats.lua.
--
-- `k[1]` is its hash: `set` is 1 from a `set` on until a `reset`, `until` when its lifetime ends, 0 where it has none; `times` counts how
-- often it became set. That outlives both, so that who waits and missed the message still finds that it was set.

local function is_set()
  return field('set') == 1 and (field('until') == 0 or field('until') > now)
end
