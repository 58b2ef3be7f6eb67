-- acquire.lua: take permits for callers, in their order. Appended to dedup.lua and log.lua, with
-- their KEYS.
--
-- ARGV[4]  id       16 bytes, of which the last two are replaced by the number of the entry
-- ARGV[5…] callers  three arguments for each: permits; ahead: how many milliseconds before they are
--                   free they may be taken; waits: `1` if callers behind it get nothing while it
--                   waits
-- Returns  {'0'}    no rate is set
--          {'1', rate, more, next, free, scores, verdict…}
--                   the rate; `1` if more entries had expired than one call removes: call again;
--                   microseconds until the first waiting caller may call again; number of permits
--                   free before; the scores of the new entries, separated by spaces; for each
--                   caller: `t` more than the rate, `w` not available, `g ENTRY MICROSECONDS`
--                   taken, to be used after this time
--
-- Work: O(log n) for n entries in the log; at most 1,000 entries removed, 1,040 read and 256 added;
-- 64 counted, or 5,000 if the value is wrong. Sent twice, it takes once.
local scores = {}
local entries, loaded, longest = {}, 0, false
-- Returns the i-th entry to expire next, as permits and score. Returns nil after the last entry
-- that is read.
local function following(i)
  if i > loaded and not longest then
    local size = loaded == 0 and 16 or 1024
    local piece = redis.call('ZRANGE', permits, #over + loaded, #over + loaded + size - 1, 'WITHSCORES')
    for n = 1, #piece, 2 do
      entries[loaded + (n + 1) / 2] = {count(piece[n]), tonumber(piece[n + 1])}
    end
    loaded = loaded + #piece / 2
    longest = #piece / 2 < size or loaded > 1024
  end
  return entries[i]
end

-- At the time `at`, the entries before `next_one` have expired, and `open` permits are free.
local at, open, next_one, taken = now, free, 1, 0
local groups, verdicts, again, stopped = {}, {}, 0, false
for i = 5, #ARGV, 3 do
  local wanted, waits = tonumber(ARGV[i]), ARGV[i + 2] == '1'
  -- If permits were given back and are still in the log, the expiry of an entry may free nothing.
  -- Then no permits are taken ahead.
  local ahead = is_exact and math.min(tonumber(ARGV[i + 1]), interval) or 0
  local verdict = 'w'
  if wanted > rate then
    verdict = 't'
  elseif not stopped then
    local then_at, then_open, n = at, open, next_one
    while then_open < wanted do
      local entry = following(n)
      if not entry then
        break
      end
      then_at, then_open, n = math.max(then_at, entry[2] + interval), then_open + entry[1], n + 1
    end
    if then_open >= wanted and then_at - now <= ahead then
      at, open, next_one, taken = then_at, then_open - wanted, n, taken + wanted
      local last = groups[#groups]
      if not last or last.at ~= at or last.count + wanted > 4294967295 then
        last = {at = at, count = 0}
        table.insert(groups, last)
        table.insert(scores, time(at))
      end
      last.count = last.count + wanted
      verdict = string.format('g %d %.0f', #groups, math.ceil((at - now) * 1000))
    elseif waits then
      stopped, again = true, then_at
      if then_open < wanted and longest and #groups > 0 then
        -- The permits that this call took have to expire first.
        again = math.max(again, groups[1].at + interval)
      end
    end
  end
  table.insert(verdicts, verdict)
end

local added = {}
for n, group in ipairs(groups) do
  local id = string.sub(ARGV[4], 1, 14) .. struct.pack('>H', n)
  table.insert(added, time(group.at))
  table.insert(added, struct.pack('Bc0I', #id, id, group.count))
end
if taken > 0 or #over > 0 or #alien > 0 or used then
  local refused = write(taken, added)
  if refused then
    return refused
  end
end
live()
local next_in = string.format('%.0f', math.max(0, math.ceil((again - now) * 1000)))
local free_now = string.format('%.0f', free)
return answer({'1', set[1], more and '1' or '0', next_in, free_now, table.concat(scores, ' '), unpack(verdicts)})
