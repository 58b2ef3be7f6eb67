-- state.lua: unpacks the state of a message. Its fields are those of `states` in queue.lua.
--
-- Returns nil for bytes that no script has written: the message is dropped, and others are not
-- affected.
local function unpack_state(packed)
  local state = cmsgpack.unpack(packed)
  -- Comparing a number with a value of another type is an error.
  if #state == 8 and state[1] >= 0 and state[2] >= 0 and state[2] <= 9 and state[4] >= 0 and state[5] >= 0
    and state[7] >= 0 and state[8] >= 0 and type(state[3]) == 'string' and type(state[6]) == 'string'
    and state[1] + state[4] + state[5] + state[7] + state[8] <= 9007199254740992 then
    return state
  end
end
local function read_state(packed)
  local is_read, state = pcall(unpack_state, packed)
  return is_read and state or nil
end
