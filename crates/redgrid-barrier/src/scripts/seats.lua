-- seats.lua: what the scripts of this crate begin with: the time, and the seats of those who take part.
--
-- `k[1]` is the hash of the object. Who takes part is a seat of a client and a turn of it, which rises: the field
-- `<client id>:<seat>` is `<turn> <number> <mark> <until>`; what the number and the mark say depends on the object. What was sent by
-- a former turn changes nothing. A mark `l` says that this turn has left: copies of its requests that come late change nothing.
-- `until` is when its lease ends, in milliseconds by this server's clock.
--
-- Nothing has a lifetime shorter than KEPT beyond the last lease, so that who stood still for a while is still told.
local KEPT = 600000
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function is_late(limit)
  return clock[1] * 1000000 + clock[2] > tonumber(limit)
end

-- The turn, number, mark and end of a seat; nothing where nobody sat.
local function seat(id)
  local turn, number, mark, till = string.match(redis.call('HGET', k[1], id) or '', '^(%d+) (%-?%d+) (%a) (%d+)$')
  return tonumber(turn), tonumber(number), mark, tonumber(till)
end

local function sit(id, turn, number, mark, till)
  redis.call('HSET', k[1], id, string.format('%s %d %s %.0f', turn, number, mark, till))
end

local function field(name)
  return tonumber(redis.call('HGET', k[1], name) or '0')
end

-- Everything lives on for the lease and KEPT, at least.
local function keep(lease)
  for _, key in ipairs(k) do
    if redis.call('PTTL', key) < lease + KEPT then
      redis.call('PEXPIRE', key, lease + KEPT)
    end
  end
end

-- Called first by scripts that only renew. A full server (maxmemory) refuses a script's first write if that needs memory, but no later
-- write; this one needs none.
local function keep_on_full_server()
  redis.call('ZREM', k[2], '')
end

-- Takes out of a sorted set of leases who has died, and forgets their seats; returns who they were.
local function bury(leases)
  local dead = redis.call('ZRANGEBYSCORE', leases, '-inf', now)
  for _, id in ipairs(dead) do
    redis.call('ZREM', leases, id)
    redis.call('HDEL', k[1], id)
  end
  return dead
end

-- Milliseconds until the first of some leases ends; -1 where there are none.
local function first_end(leases)
  local first = redis.call('ZRANGE', leases, 0, 0, 'WITHSCORES')
  return first[2] and math.max(first[2] - now, 0) or -1
end

-- Forgets the seats of those who have left long ago, where they are many; once a minute at most, as it reads all that are there.
local function sweep(most)
  if redis.call('HLEN', k[1]) <= most or field('swept') + 60000 > now then
    return
  end
  redis.call('HSET', k[1], 'swept', string.format('%.0f', now))
  local all = redis.call('HGETALL', k[1])
  for i = 1, #all, 2 do
    local till = string.match(all[i + 1], ' %a (%d+)$')
    if till and tonumber(till) + KEPT < now then
      redis.call('HDEL', k[1], all[i])
    end
  end
end
