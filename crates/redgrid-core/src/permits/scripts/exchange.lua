-- exchange.lua: give back, renew and take permits of a semaphore, all that one client has to say about it. Behind once.lua.
--
-- KEYS[2]  left     string; how many permits are left. Redisson's; absent where none were set
-- KEYS[3]  leases   sorted set; each leased permit by the millisecond of its end. Redisson's
-- KEYS[4]  line     sorted set; who waits in the order of asking: `<client>:<permits>:<number>`. Only of a fair semaphore
-- KEYS[5]  living   sorted set; each client with a place in the line, by the millisecond until which it is believed to live
-- ARGV[4]  publish, [5] channel   how those who wait are told; the message is how many permits are left
-- ARGV[6]  capacity   to begin with where none were set; empty where that is not for us to say
-- ARGV[7]  returned   permits without a lease
-- ARGV[8]  r, [9] w, [10] g   how many ids are given back, how many are looked at, how many places are given up
-- ARGV[11] client     who stands in the line
-- ARGV[12] alive      milliseconds for which it is believed to live from now
-- then     r ids · w times: id, lease, exactly · g places · the requests, each: permits, place, lease, and with a lease an id
--          for each permit. `exactly` is `1` where the lease is to end then, and `0` where it is to end no earlier
-- Returns  {taken, left, told, next, back, kept}
--            taken   `1` or `0` for each request; `-` where none were set, and nothing was taken
--            left    permits
--            told    subscribers that heard of it; -1 where nothing was to be told; -2 - n where the message was refused, and n
--                    subscribers did not get it
--            next    milliseconds until the first lease ends; -1 where none does
--            back    `1` or `0` for each id given back: whether it was still there
--            kept    the same for each id looked at
--
-- While the slot moves, a key that is emptied can not be touched any more: what goes is only noted, and removed at the end.
--
-- Work: O(what is said + leases that ended + the line's dead).
local now = math.floor((clock[1] * 1000000 + clock[2]) / 1000)
local said = redis.call('GET', KEYS[2])
if said and not tonumber(said) then
  return redis.error_reply('WRONGTYPE not a number of permits')
end
local ending, leaving, out = {}, {}, {}
local function note(members, member)
  members[#members + 1], out[member] = member, true
end
local function remove(key, members)
  for i = 1, #members, 5000 do
    redis.call('ZREM', key, unpack(members, i, math.min(#members, i + 4999)))
  end
end
local at = 13
local back, kept, taken = {}, {}, {}

for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, 1000)) do
  note(ending, id)
end
for i = 1, tonumber(ARGV[8]) do
  local held = not out[ARGV[at]] and redis.call('ZSCORE', KEYS[3], ARGV[at])
  if held then
    note(ending, ARGV[at])
  end
  back[i], at = held and 1 or 0, at + 1
end
local freed = #ending
if #ARGV == 12 + ARGV[8] + 3 * ARGV[9] + ARGV[10] then
  -- What asks for nothing is not refused for want of memory: servers refuse only a script's first write.
  redis.call('ZREM', KEYS[3], '')
end
for i = 1, tonumber(ARGV[9]) do
  local held = not out[ARGV[at]] and redis.call('ZSCORE', KEYS[3], ARGV[at])
  if held then
    local ends = now + ARGV[at + 1]
    -- Its holder may believe in more, by an extension.
    if ARGV[at + 2] == '1' or ends > tonumber(held) then
      redis.call('ZADD', KEYS[3], string.format('%.0f', ends), ARGV[at])
    end
  end
  kept[i], at = held and 1 or 0, at + 3
end
back, kept = table.concat(back), table.concat(kept)

local moved = false
for _ = 1, tonumber(ARGV[10]) do
  if redis.call('ZSCORE', KEYS[4], ARGV[at]) then
    note(leaving, ARGV[at])
    moved = true
  end
  at = at + 1
end
if not said and ARGV[6] == '' then
  remove(KEYS[3], ending)
  remove(KEYS[4], leaving)
  return answer({'-', 0, -1, -1, back, kept})
end

local left = said and tonumber(said) or ARGV[6] - redis.call('ZCARD', KEYS[3]) + freed
if said then
  left = left + freed + tonumber(ARGV[7])
end
local requests, places = {}, {}
while ARGV[at] do
  local request = {n = tonumber(ARGV[at]), place = ARGV[at + 1], lease = tonumber(ARGV[at + 2]), ids = at + 3}
  at = at + 3 + (request.lease > 0 and request.n or 0)
  requests[#requests + 1] = request
  if request.place ~= '' then
    places[request.place] = request
  end
end
local function take(request)
  left = left - request.n
  request.taken = true
  if request.lease > 0 then
    local ends = string.format('%.0f', now + request.lease)
    for i = request.ids, request.ids + request.n - 1 do
      redis.call('ZADD', KEYS[3], ends, ARGV[i])
    end
  end
end

if KEYS[4] then
  if next(places) then
    redis.call('ZADD', KEYS[5], string.format('%.0f', now + ARGV[12]), ARGV[11])
  end
  for _, request in ipairs(requests) do
    if request.place ~= '' and not redis.call('ZSCORE', KEYS[4], request.place) then
      local last = redis.call('ZRANGE', KEYS[4], -1, -1, 'WITHSCORES')[2] or 0
      redis.call('ZADD', KEYS[4], string.format('%.0f', last + 1), request.place)
    end
  end
  local living, stands, rank = {}, false, 0
  while not stands do
    local head = redis.call('ZRANGE', KEYS[4], rank, rank)[1]
    if not head then
      break
    end
    local client, n = string.match(head, '^(.*):(%d+):%d+$')
    if client and living[client] == nil then
      living[client] = tonumber(redis.call('ZSCORE', KEYS[5], client) or 0) > now
    end
    if out[head] then
      rank = rank + 1
    elseif client and living[client] and (tonumber(n) > left or not places[head]) then
      stands = true
    else
      if client and living[client] then
        take(places[head])
      end
      -- Whoever is next now may have looked before, and is told of what is left.
      moved = true
      note(leaving, head)
      rank = rank + 1
    end
  end
  for _, request in ipairs(requests) do
    -- One look, by who does not stand in the line: only where nobody does.
    if request.place == '' and not stands and request.n <= left then
      take(request)
    end
  end
  for _, key in ipairs({KEYS[4], KEYS[5]}) do
    redis.call('PEXPIRE', key, 60000)
  end
else
  for _, request in ipairs(requests) do
    if request.n > left then
      break
    end
    take(request)
  end
end
for i, request in ipairs(requests) do
  taken[i] = request.taken and '1' or '0'
end

if not said then
  redis.call('SET', KEYS[2], string.format('%.0f', left))
elseif left ~= tonumber(said) then
  redis.call('INCRBY', KEYS[2], string.format('%.0f', left - said))
end
if ARGV[9] ~= '0' or next(requests) and requests[1].lease > 0 then
  -- Leases live as long as the number. Redisson's addPermits ends the lifetime of the number alone.
  local lifetime = redis.call('PTTL', KEYS[2])
  if lifetime > 0 then
    redis.call('PEXPIRE', KEYS[3], lifetime)
  elseif lifetime == -1 then
    redis.call('PERSIST', KEYS[3])
  end
end
local told = -1
if left > 0 and (moved or freed > 0 or tonumber(ARGV[7]) > 0) then
  told = redis.pcall(ARGV[4], ARGV[5], string.format('%.0f', left))
  if type(told) ~= 'number' then
    -- They are back already: a refused message does not undo it. Listeners notice it by their poll; without a count it is two.
    local listeners = redis.pcall('PUBSUB', ARGV[4] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', ARGV[5])
    told = -2 - (listeners[2] or 2)
  end
end
remove(KEYS[3], ending)
remove(KEYS[4], leaving)
-- It is not there any more, perhaps.
local soonest = redis.pcall('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
soonest = soonest and math.max(0, tonumber(soonest) - now) or -1
return answer({table.concat(taken), string.format('%.0f', left), told, string.format('%.0f', soonest), back, kept})
