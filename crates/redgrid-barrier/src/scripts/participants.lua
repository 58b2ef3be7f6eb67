-- participants.lua: the prelude of all scripts of this crate: the time, and the participants of an
-- object.
--
-- `k[1]` is the hash of the object. A participant is a number of a client, with a generation that
-- grows with each use of the number. The hash field `<client id>:<number>` has the value
-- `<generation> <value> <state> <until>`. The meaning of value and state depends on the object.
-- `until` is the end of the lease, in milliseconds by this server's clock. Requests of an earlier
-- generation change nothing. The state `l` means that this generation has left: its late
-- retransmissions change nothing.
--
-- Every key lives at least RETENTION beyond the last lease, so that a participant that was
-- suspended for a while still receives its result.
local RETENTION = 600000
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function is_late(limit)
  return clock[1] * 1000000 + clock[2] > tonumber(limit)
end

-- Returns generation, value, state and lease end of a participant; nothing if it is unknown.
local function participant(id)
  local generation, value, state, until_ms = string.match(redis.call('HGET', k[1], id) or '', '^(%d+) (%-?%d+) (%a) (%d+)$')
  return tonumber(generation), tonumber(value), state, tonumber(until_ms)
end

local function set_participant(id, generation, value, state, until_ms)
  redis.call('HSET', k[1], id, string.format('%s %d %s %.0f', generation, value, state, until_ms))
end

local function field(name)
  return tonumber(redis.call('HGET', k[1], name) or '0')
end

-- Extends the lifetime of all keys to at least the lease and RETENTION.
local function extend_ttl(lease)
  for _, key in ipairs(k) do
    if redis.call('PTTL', key) < lease + RETENTION then
      redis.call('PEXPIRE', key, lease + RETENTION)
    end
  end
end

-- Called first by scripts that only renew. A full server (maxmemory) refuses a script's first write
-- if it needs memory, but no later write. This write needs none.
local function allow_writes_on_full_server()
  redis.call('ZREM', k[2], '')
end

-- Removes participants with expired leases from a sorted set and from the hash; returns their ids.
local function evict_expired(leases)
  local expired = redis.call('ZRANGEBYSCORE', leases, '-inf', now)
  for _, id in ipairs(expired) do
    redis.call('ZREM', leases, id)
    redis.call('HDEL', k[1], id)
  end
  return expired
end

-- Returns the milliseconds until the first of some leases ends; -1 if there are none.
local function next_lease_end(leases)
  local first = redis.call('ZRANGE', leases, 0, 0, 'WITHSCORES')
  return first[2] and math.max(first[2] - now, 0) or -1
end

-- Deletes participants that left long ago if the hash has more than `max_fields` fields. It runs at
-- most once a minute, because it reads the whole hash.
local function purge(max_fields)
  if redis.call('HLEN', k[1]) <= max_fields or field('swept') + 60000 > now then
    return
  end
  redis.call('HSET', k[1], 'swept', string.format('%.0f', now))
  local all = redis.call('HGETALL', k[1])
  for i = 1, #all, 2 do
    local until_ms = string.match(all[i + 1], ' %a (%d+)$')
    if until_ms and tonumber(until_ms) + RETENTION < now then
      redis.call('HDEL', k[1], all[i])
    end
  end
end
