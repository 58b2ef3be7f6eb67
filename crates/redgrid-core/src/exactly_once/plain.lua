-- plain.lua: replaces dedup.lua in front of a script that is sent once, so that nothing is remembered.
--
-- KEYS[1] and ARGV[1] to ARGV[3] are not used: what is behind this has its keys and arguments where dedup.lua leaves them.
local function answer(values)
  return {1, values}
end
