-- plain.lua: replaces dedup.lua before a script that is sent once, so that nothing is stored.
--
-- KEYS[1] and ARGV[1] to ARGV[3] are passed but not used. So the following script finds its own
-- keys and arguments at the same places as after dedup.lua.
local function answer(values)
  return {1, values}
end
