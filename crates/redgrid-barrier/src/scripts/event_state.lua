-- event_state.lua: whether an event is set, and how often it was.
--
-- KEYS[1]  event  hash: see event.lua
-- Returns  {set, times}
--
-- Work: O(1), writes nothing. Sent twice, it answers twice.
return {is_set() and 1 or 0, field('times')}
