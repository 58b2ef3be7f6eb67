-- fair_queue.lua: the functions that the scripts of a fair lock share; it precedes each of them.
--
-- The queue has Redisson's format: a list of holders, and a sorted set with a score for each, in
-- milliseconds. The score of a position is the score of the previous one plus its own `wait`. When
-- a position is granted or leaves, its `wait` is subtracted from the scores behind it. Redisson
-- removes the head when the head's score has passed by Redisson's clock. These scripts remove
-- expired positions of redgrid, and leave Redisson's positions to that rule.
--
-- A queue is the four keys {lock, queue, scores, alive}. `alive` belongs to redgrid: when each of
-- its positions expires, in milliseconds by this server's clock. A position that is not in it is
-- Redisson's.
local clock = redis.call('TIME')
local time = clock[1] .. string.format('%06d', clock[2])
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- Wait of a Redisson position by its defaults: 5 minutes. Maximum that is assumed for a Redisson
-- position with a longer wait: an hour.
local FOREIGN_WAIT, MAX_FOREIGN_WAIT = 300000, 3600000
-- Minimum extension of all redgrid positions that were not kept alive while the server was paused.
local GRACE = 1000
-- Maximum number of expired positions that one call removes. LREM scans the queue up to the
-- position. Fewer are removed from a long queue, so that all scans together cover at most 100,000
-- positions. Measured: 64 positions at the end of a queue of 10,000 took 40 ms.
local MAX_EXPIRED, MAX_SCANNED = 64, 100000
-- A longer queue that has only redgrid positions is scanned only on request.
local LONG_QUEUE = 128

-- Calls `command` with a list of arguments, in chunks that fit on Lua's stack.
local function call_in_chunks(command, key, list)
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

-- Extends all redgrid positions once if every one of them has expired: the server was paused, or
-- another server has taken over. A fraction of one half marks extended expiry times, which are not
-- extended again. Must be called before a position is kept alive.
local function grant_grace(k, ttl)
  local last = redis.call('ZRANGE', k[4], -1, -1, 'WITHSCORES')[2]
  if not last or tonumber(last) >= now or tonumber(last) % 1 ~= 0 then
    return
  end
  local ends, extended = now + math.max(ttl, GRACE) + 0.5, {}
  for _, position in ipairs(redis.call('ZRANGE', k[4], 0, -1)) do
    extended[#extended + 1] = ends
    extended[#extended + 1] = position
  end
  call_in_chunks('ZADD', k[4], extended)
end

-- Returns whether all positions are redgrid's; O(1). A redgrid position that Redisson removed stays
-- in `alive` for a second, and offsets one of Redisson's in the count. Therefore the first and the
-- last position are checked, too.
local function has_only_own(k)
  if redis.call('LLEN', k[2]) ~= redis.call('ZCARD', k[4]) then
    return false
  end
  local head, last = redis.call('LINDEX', k[2], 0), redis.call('LINDEX', k[2], -1)
  return not head or (redis.call('ZSCORE', k[4], head) and redis.call('ZSCORE', k[4], last) and true)
end

-- Returns whether a position must be removed: an expired one of redgrid, or a head of Redisson
-- with a past score.
local function needs_cleanup(k)
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

-- Sets lifetimes for the keys of a queue of redgrid positions only. Redisson sets none, so a queue
-- with one of its positions gets none.
local function set_lifetimes(k, wait)
  local last = redis.call('ZRANGE', k[3], -1, -1, 'WITHSCORES')
  if not last[2] then
    redis.call('DEL', k[2], k[4])
    return
  end
  local ends = math.max(tonumber(last[2]), now) + wait
  if has_only_own(k) then
    redis.call('PEXPIREAT', k[2], ends)
    redis.call('PEXPIREAT', k[3], ends)
  else
    redis.call('PERSIST', k[2])
    redis.call('PERSIST', k[3])
  end
  redis.call('PEXPIREAT', k[4], ends)
end

-- Removes expired positions and those in `leaving`, and updates the scores.
--
-- If Redisson's positions are in the queue, it makes one pass over all positions, O(n). The wait of
-- each removed position is subtracted from the scores behind it. Live redgrid positions get scores
-- that outlast the positions before them, however long these have been queued. Otherwise the score
-- of a new head could have passed already, and a Redisson process would remove that head.
--
-- If all positions are redgrid's, they get the scores of a new queue. Redisson reads only the
-- scores of the head and the last position. In a long queue only these two are set, unless `all` is
-- true.
local function update_queue(k, wait, leaving, all)
  local length = redis.call('LLEN', k[2])
  local mixed = not has_only_own(k)
  local max_expired = math.max(1, math.min(MAX_EXPIRED, math.floor(MAX_SCANNED / math.max(length, 1))))
  local gone = redis.call('ZRANGEBYSCORE', k[4], '-inf', '(' .. now, 'LIMIT', 0, max_expired)
  for _, position in ipairs(leaving) do
    gone[#gone + 1] = position
  end
  local removed, new_scores = gone, {}
  if mixed or all or length <= LONG_QUEUE then
    local list, alive = redis.call('LRANGE', k[2], 0, -1), scores_of(k[4])
    local is_gone, expired_foreign, remaining = {}, {}, 0
    local removed_wait, min_score, previous = 0, now, nil
    for _, position in ipairs(gone) do
      is_gone[position] = true
    end
    mixed = false
    for _, position in ipairs(list) do
      mixed = mixed or not (alive[position] or is_gone[position])
    end
    local old_scores = mixed and scores_of(k[3])
    for _, position in ipairs(list) do
      local is_own, old_score = alive[position], mixed and old_scores[position]
      if is_gone[position] then
        removed_wait = removed_wait + wait
      elseif not is_own and remaining == 0 and old_score and old_score <= now then
        expired_foreign[#expired_foreign + 1] = position
      else
        remaining = remaining + 1
        local new_score = old_score and old_score - removed_wait
        if not mixed then
          min_score = min_score + wait
          new_score = min_score
        elseif is_own then
          min_score = min_score + wait
          -- A score that is too low by less than a sixth of `wait` stays: otherwise it would be
          -- updated every millisecond.
          if not new_score or new_score < min_score - wait / 6 then
            new_score = min_score
          end
        else
          -- The time that Redisson will subtract from the scores behind this position later. For
          -- the head that time is unknown, but at least the head's remaining time.
          local foreign_wait = old_score
            and (previous and old_score - previous or math.max(old_score - now, FOREIGN_WAIT))
            or FOREIGN_WAIT
          min_score = min_score + math.max(0, math.min(foreign_wait, MAX_FOREIGN_WAIT))
          -- Without a score the position would never be removed.
          new_score = new_score or now + wait
        end
        previous = old_score or new_score
        if new_score ~= old_score then
          new_scores[#new_scores + 1] = new_score
          new_scores[#new_scores + 1] = position
        end
      end
    end
    if #expired_foreign > 0 then
      removed = {unpack(gone)}
      for _, position in ipairs(expired_foreign) do
        removed[#removed + 1] = position
      end
    end
  end
  for _, position in ipairs(removed) do
    redis.call('LREM', k[2], 1, position)
  end
  call_in_chunks('ZREM', k[3], removed)
  call_in_chunks('ZREM', k[4], gone)
  if #new_scores == 0 and not mixed then
    local head, last = redis.call('LINDEX', k[2], 0), redis.call('LINDEX', k[2], -1)
    if head then
      new_scores = {now + wait * redis.call('LLEN', k[2]), last, now + wait, head}
    end
  end
  call_in_chunks('ZADD', k[3], new_scores)
  set_lifetimes(k, wait)
end

-- Notifies the head that the lock is free. A rejected message does no harm: waiters also poll.
local function notify_head(k, publish, channel)
  local head = redis.call('LINDEX', k[2], 0)
  if head then
    redis.pcall(publish, channel .. ':' .. head, '0')
  end
end
