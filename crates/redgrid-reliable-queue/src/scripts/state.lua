-- state.lua: unpacks the state of a message. Its fields are those of `states` in queue.lua.
--
-- Returns nil for bytes that no script has written: the message is dropped, and others are not
-- affected.
local KINDS = {'number', 'number', 'string', 'number', 'number', 'string', 'number', 'number'}
local function read_state(packed)
  local is_read, state = pcall(cmsgpack.unpack, packed)
  if not is_read or type(state) ~= 'table' or #state ~= #KINDS then
    return nil
  end
  for at, kind in ipairs(KINDS) do
    local value = state[at]
    if type(value) ~= kind or (kind == 'number' and not (value >= 0 and value <= 9007199254740992)) then
      return nil
    end
  end
  return state[2] <= 9 and state or nil
end
