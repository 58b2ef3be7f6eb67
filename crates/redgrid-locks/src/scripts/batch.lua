-- batch.lua: a batch of release.lua and acquire.lua calls, one key each, independent of each other.
--
-- KEYS[i]  lock       hash; one field, the holder; those to be released come first
-- ARGV[1]  releases   number of locks to release
-- ARGV[2]  not after  microseconds since 1970 by this server's clock; after it, nothing is acquired
-- ARGV[3]  publish    PUBLISH or SPUBLISH
-- ARGV[2i + 2], ARGV[2i + 3]  of the i-th
--          a release: holder, channel
--          an acquire: holder, lease in milliseconds
-- Returns  the time (microseconds since 1970), and the reply of each call. A call that failed has
--          an error as its reply, and changed nothing. The replies are those of release.lua and
--          acquire.lua, but an acquire returns 1 for its time, and 2 for {2, time, 0}
--
-- Work: O(keys), writes each. Sent twice, each call does what its own script does when sent twice.
-- A full server (maxmemory) refuses only the first write of a script: after a release in the same
-- batch, it grants a lock.
local now = redis.call('TIME')
local time = now[1] * 1000000 + now[2]
local releases, is_late, publish = tonumber(ARGV[1]), time > tonumber(ARGV[2]), ARGV[3]
local replies = {time}

local function acquire(key, holder, lease)
  if is_late then
    return 2
  end
  local held = redis.pcall('EXISTS', key)
  if held == 1 then
    held = redis.pcall('HEXISTS', key, holder)
    if type(held) == 'number' then
      local left = redis.pcall('PTTL', key)
      if type(left) == 'table' then
        return left
      end
      if held == 0 then
        return {0, time, left}
      end
      if left >= tonumber(lease) then
        return 1
      end
    end
  end
  if type(held) == 'table' then
    return held
  end
  local written = redis.pcall('HSET', key, holder, '1')
  if type(written) == 'table' then
    return written
  end
  local expire_reply = redis.pcall('PEXPIRE', key, lease)
  if type(expire_reply) == 'table' then
    -- A lock needs a lifetime: a user without `+pexpire` cannot acquire it.
    redis.pcall('HDEL', key, holder)
    return expire_reply
  end
  return 1
end

for i, key in ipairs(KEYS) do
  local holder, argument = ARGV[2 * i + 2], ARGV[2 * i + 3]
  if i > releases then
    replies[i + 1] = acquire(key, holder, argument)
  else
    local done = redis.pcall('HDEL', key, holder)
    if done == 1 then
      local receivers = redis.pcall(publish, argument, '0')
      if type(receivers) == 'number' then
        done = receivers + 1
      else
        -- As in release.lua: the lock is already free, and the message was rejected.
        local subscribers = redis.pcall('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', argument)
        done = {1 + (subscribers[2] or 2), 2}
      end
    end
    replies[i + 1] = done
  end
end
return replies
