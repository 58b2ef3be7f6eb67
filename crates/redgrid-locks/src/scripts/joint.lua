-- joint.lua: what many calls of release.lua and acquire.lua do, of one key each and independent of each other.
--
-- KEYS[i]  lock       hash; one field, the holder; those to be given back come first
-- ARGV[1]  releases   how many are given back
-- ARGV[2]  not after  microseconds since 1970 by this server's clock; later than that, nothing is taken
-- ARGV[3]  publish    PUBLISH or SPUBLISH
-- ARGV[2i + 2], ARGV[2i + 3]  of the i-th
--          a release: holder, channel
--          an acquire: holder, lease in milliseconds
-- Returns  the time (microseconds since 1970), and for each what its own script would have returned; an error in its
--          place says that it was not done, and of an acquire 1 alone is the time, 2 alone {2, time, 0}
--
-- Work: O(keys), writes each. Sent twice, each does what its own script does when it is sent twice. A server that is full
-- looks for memory only before the first write of a script: behind a release it grants.
local now = redis.call('TIME')
local time = now[1] * 1000000 + now[2]
local releases, is_late, publish = tonumber(ARGV[1]), time > tonumber(ARGV[2]), ARGV[3]
local answers = {time}

local function acquire(key, holder, lease)
  if is_late then
    return 2
  end
  local taken = redis.pcall('EXISTS', key)
  if taken == 1 then
    taken = redis.pcall('HEXISTS', key, holder)
    if type(taken) == 'number' then
      local left = redis.pcall('PTTL', key)
      if type(left) == 'table' then
        return left
      end
      if taken == 0 then
        return {0, time, left}
      end
      if left >= tonumber(lease) then
        return 1
      end
    end
  end
  if type(taken) == 'table' then
    return taken
  end
  local written = redis.pcall('HSET', key, holder, '1')
  if type(written) == 'table' then
    return written
  end
  local bounded = redis.pcall('PEXPIRE', key, lease)
  if type(bounded) == 'table' then
    -- No lock without a lifetime: a user who may not set one may not lock.
    redis.pcall('HDEL', key, holder)
    return bounded
  end
  return 1
end

for i, key in ipairs(KEYS) do
  local holder, other = ARGV[2 * i + 2], ARGV[2 * i + 3]
  if i > releases then
    answers[i + 1] = acquire(key, holder, other)
  else
    local done = redis.pcall('HDEL', key, holder)
    if done == 1 then
      local told = redis.pcall(publish, other, '0')
      if type(told) == 'number' then
        done = told + 1
      else
        -- As release.lua: free already, and the message was refused.
        local listeners = redis.pcall('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', other)
        done = {1 + (listeners[2] or 2), 2}
      end
    end
    answers[i + 1] = done
  end
end
return answers
