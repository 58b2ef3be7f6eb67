-- acquire.lua: take permits for those who ask, in their order. Behind dedup.lua and log.lua, whose keys it has.
--
-- ARGV[4]  id       16 bytes, of which the last two are replaced by the number of the entry
-- ARGV[5…] three for each who asks: permits; ahead, in milliseconds: they may be taken for so much later; waits: `1`: if they can not be
--                   had, nobody behind is asked for
-- Returns  {'0'}    no rate is set
--          {'1', rate, more, next, free, scores, verdict…}   the rate; `1` where more of the log was over than one call drops: ask
--                   again; microseconds until the first who waits may ask again; how many were free before; the scores of the
--                   entries, separated by spaces; for each: `t` more than the rate, `w` not now, `g ENTRY MICROSECONDS` taken,
--                   for so much later
--
-- Work: O(log n) for n in the log, and at most 1,000 entries dropped, 1,040 looked at and 256 added; 64 counted, 5,000 where the value is
-- wrong. Sent twice, it takes once.
local scores = {}
local entries, loaded, longest = {}, 0, false
-- The i-th of those that are over next: how many, and since when it is in the log. Nothing behind the last that is looked at.
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

-- At `at`, when so many of the next are over, so many are free.
local at, open, next_one, taken = now, free, 1, 0
local groups, verdicts, again, stopped = {}, {}, 0, false
for i = 5, #ARGV, 3 do
  local wanted, waits = tonumber(ARGV[i]), ARGV[i + 2] == '1'
  -- What was given back and is in the log still is not to be taken again when it is over.
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
        -- What is taken here is to be over first.
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
