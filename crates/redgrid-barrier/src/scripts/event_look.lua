-- event_look.lua: whether an event is set, and how often it was.
--
-- KEYS[1]  event  hash; `set` is 1 while it is, `times` counts how often it was set
-- Returns  {set, times}
--
-- Work: O(1), writes nothing. Sent twice, it answers twice.
return {field('set'), field('times')}
