-- fair_queue.lua: what the scripts of a fair lock have in common; it stands in front of each of them.
--
-- The queue is Redisson's: a list of holders, and a sorted set with a score for each, in milliseconds. A score is that of the
-- one before plus what its own place is worth, `wait`; who gets in or leaves takes its own `wait` off those behind. Redisson
-- throws out a head whose score is over by its own clock. We throw out ours when they are dead, and leave theirs to that rule.
--
-- A queue is the four keys {lock, queue, scores, alive}. `alive` is ours alone: until when, in milliseconds by this server's
-- clock, each place of ours is kept by its process. Who is not in it is Redisson's.
local clock = redis.call('TIME')
local time = clock[1] .. string.format('%06d', clock[2])
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- What a place of Redisson's is worth by its defaults, 5 minutes, and what is believed of one that waits longer: an hour.
local FOREIGN, LONGEST = 300000, 3600000
-- What all places of ours get once that were not kept while the server stood still, at least.
local GRACE = 1000
-- Maximum number of dead places that one call removes. LREM looks through the queue up to the place, so in a long queue fewer are
-- removed: as many as look at 100,000 places together. Measured: 64 places at the end of a queue of 10,000 took 40 ms.
local MOST_DEAD, MOST_LOOKED_AT = 64, 100000
-- From how many places on a queue of ours alone is looked through only when it is asked for.
local LONG = 128

-- Calls `command` with a list of arguments, as many at a time as Lua's stack bears.
local function many(command, key, list)
  for i = 1, #list, 2000 do
    redis.call(command, key, unpack(list, i, math.min(i + 1999, #list)))
  end
end

local function scores_of(key)
  local list, map = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES'), {}
  for i = 1, #list, 2 do
    map[list[i]] = tonumber(list[i + 1])
  end
  return map
end

-- Where no place of ours was kept in time, not even one, it was the server that stood still, or another one that has taken over:
-- all of them get a little more, once. A half in their times tells that they had it. To be called before a place is kept.
local function forgive(k, kept)
  local last = redis.call('ZRANGE', k[4], -1, -1, 'WITHSCORES')[2]
  if not last or tonumber(last) >= now or tonumber(last) % 1 ~= 0 then
    return
  end
  local ends, more = now + math.max(kept, GRACE) + 0.5, {}
  for _, place in ipairs(redis.call('ZRANGE', k[4], 0, -1)) do
    more[#more + 1] = ends
    more[#more + 1] = place
  end
  many('ZADD', k[4], more)
end

-- Whether all places are ours; O(1). What Redisson has thrown out of ours is still in `alive`, for a second, and counts as much
-- as one of its own: so the first and the last are looked at, too.
local function is_ours(k)
  if redis.call('LLEN', k[2]) ~= redis.call('ZCARD', k[4]) then
    return false
  end
  local head, last = redis.call('LINDEX', k[2], 0), redis.call('LINDEX', k[2], -1)
  return not head or (redis.call('ZSCORE', k[4], head) and redis.call('ZSCORE', k[4], last) and true)
end

-- Whether somebody is to be thrown out: one of ours that is dead, or a head of Redisson's whose time is over.
local function is_untidy(k)
  local first = redis.call('ZRANGE', k[4], 0, 0, 'WITHSCORES')
  if first[2] and tonumber(first[2]) < now then
    return true
  end
  local head = redis.call('LINDEX', k[2], 0)
  if not head or redis.call('ZSCORE', k[4], head) then
    return false
  end
  local score = redis.call('ZSCORE', k[3], head)
  return not score or tonumber(score) <= now
end

-- Lifetimes for the queue's keys where every place is ours; Redisson gives them none, so none where one is its.
local function set_lifetimes(k, wait)
  local last = redis.call('ZRANGE', k[3], -1, -1, 'WITHSCORES')
  if not last[2] then
    redis.call('DEL', k[2], k[4])
    return
  end
  local ends = math.max(tonumber(last[2]), now) + wait
  if is_ours(k) then
    redis.call('PEXPIREAT', k[2], ends)
    redis.call('PEXPIREAT', k[3], ends)
  else
    redis.call('PERSIST', k[2])
    redis.call('PERSIST', k[3])
  end
  redis.call('PEXPIREAT', k[4], ends)
end

-- Throws out who is to be, those in `leaving` too, and sees to the scores. Where Redisson's places are among ours it is one pass over
-- all, O(n): what goes is taken off those behind, and living places of ours get scores that outlast the places before them,
-- however long these were in the queue; else the first to meet the next head could be a process of Redisson's, and throw it out.
-- Where all are ours, the scores are those of a queue that was made just now. Redisson reads only those of the head and the last:
-- of a long queue, only these are set, unless `all` is asked for.
local function pass(k, wait, leaving, all)
  local places = redis.call('LLEN', k[2])
  local mixed = not is_ours(k)
  local most = math.max(1, math.min(MOST_DEAD, math.floor(MOST_LOOKED_AT / math.max(places, 1))))
  local gone = redis.call('ZRANGEBYSCORE', k[4], '-inf', '(' .. now, 'LIMIT', 0, most)
  for _, place in ipairs(leaving) do
    gone[#gone + 1] = place
  end
  local out, write = gone, {}
  if mixed or all or places <= LONG then
    local list, alive = redis.call('LRANGE', k[2], 0, -1), scores_of(k[4])
    local goes, expired, stays = {}, {}, 0
    local less, floor, before = 0, now, nil
    for _, place in ipairs(gone) do
      goes[place] = true
    end
    mixed = false
    for _, place in ipairs(list) do
      mixed = mixed or not (alive[place] or goes[place])
    end
    local score = mixed and scores_of(k[3])
    for _, place in ipairs(list) do
      local ours, was = alive[place], mixed and score[place]
      if goes[place] then
        less = less + wait
      elseif not ours and stays == 0 and was and was <= now then
        expired[#expired + 1] = place
      else
        stays = stays + 1
        local is = was and was - less
        if not mixed then
          floor = floor + wait
          is = floor
        elseif ours then
          floor = floor + wait
          -- Not for every millisecond: what is short of it by less than a sixth stays.
          if not is or is < floor - wait / 6 then
            is = floor
          end
        else
          -- What it takes off those behind when it gets in. Of a head it is not known, but not less than what it has left.
          local worth = was and (before and was - before or math.max(was - now, FOREIGN)) or FOREIGN
          floor = floor + math.max(0, math.min(worth, LONGEST))
          -- Without a score it would never be thrown out.
          is = is or now + wait
        end
        before = was or is
        if is ~= was then
          write[#write + 1] = is
          write[#write + 1] = place
        end
      end
    end
    if #expired > 0 then
      out = {unpack(gone)}
      for _, place in ipairs(expired) do
        out[#out + 1] = place
      end
    end
  end
  for _, place in ipairs(out) do
    redis.call('LREM', k[2], 1, place)
  end
  many('ZREM', k[3], out)
  many('ZREM', k[4], gone)
  if #write == 0 and not mixed then
    local head, last = redis.call('LINDEX', k[2], 0), redis.call('LINDEX', k[2], -1)
    if head then
      write = {now + wait * redis.call('LLEN', k[2]), last, now + wait, head}
    end
  end
  many('ZADD', k[3], write)
  set_lifetimes(k, wait)
end

-- Tells the head that the lock is free. A message that may not be sent does not matter: who waits also looks by itself.
local function tell_head(k, publish, channel)
  local head = redis.call('LINDEX', k[2], 0)
  if head then
    redis.pcall(publish, channel .. ':' .. head, '0')
  end
end
