-- own_key.lua: changes the own key of an object, unless it is a held lock. Appended to holders.lua.
--
-- KEYS[1]  the own key of the object
-- ARGV     the name of the command, and its arguments after the key
-- Returns  the reply of the command, 0 or 1; -4 if it is a held lock, which was not changed
--
-- Work: O(1). Sent twice, it does the same, but the second copy of a PEXPIRE sets a later end.
if is_lock(KEYS[1]) then
  return -4
end
return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))
