-- exchange.lua: returns, renews and takes permits of a semaphore, for one client in one request.
-- Appended to dedup.lua.
--
-- KEYS[2]  left          string; the number of available permits; absent if none were set.
--                        Redisson uses the same key
-- KEYS[3]  leases        sorted set; the ids of the leased permits; the score of an id is the end
--                        of its lease in milliseconds. Redisson uses the same key
-- KEYS[4]  queue         sorted set; positions of waiters in the order of their requests, each
--                        `<client>:<permits>:<number>`. Only for a fair semaphore
-- KEYS[5]  live clients  sorted set; the clients with a position; the score of a client is the
--                        time in milliseconds until which it counts as live
-- ARGV[4]  publish, [5] channel   the command and channel that wake waiters; the message is `left`
-- ARGV[6]  capacity      number of permits to set if none were set; empty to set none. If the
--                        semaphore has another number, no request is granted
-- ARGV[7]  plain         number of returned permits without a lease
-- ARGV[8]  r, [9] w, [10] g   number of returned ids, of checked leases and of cancelled positions
-- ARGV[11] client        the client of the requests and positions
-- ARGV[12] ttl           milliseconds from now for which the client counts as live
-- then     r ids; w times id, lease, exact; g positions; and for each request: permits, position,
--          lease, and, unless the lease is 0, an id for each permit. A checked lease is set to end
--          `lease` milliseconds from now. But if `exact` is `0`, a later end is not changed
-- Returns  {granted, left, receivers, next, returned, held}
--            granted    `1` or `0` for each request. Two other values mean that no request was
--                       granted: `-` if no permits were set, `=<number>` if another number of
--                       permits was set
--            left       number of available permits
--            receivers  number of subscribers that got the message; -1 if there was no message;
--                       -2 - n if the server refused the message, which n subscribers missed
--            next       milliseconds until the first lease ends; -1 without leases
--            returned   `1` or `0` for each returned id: whether it was still held
--            held       `1` or `0` for each checked id: whether it was still held
--
-- While a slot migrates, a key that has become empty cannot be accessed any more. Removals are
-- therefore collected, and executed at the end.
--
-- Work: O(arguments + expired leases + dead entries of the queue).
local now = math.floor((clock[1] * 1000000 + clock[2]) / 1000)
local stored = redis.call('GET', KEYS[2])
if stored and not tonumber(stored) then
  return redis.error_reply('WRONGTYPE not a number of permits')
end
local removed_leases, removed_positions, is_removed = {}, {}, {}
local function mark_removed(members, member)
  members[#members + 1], is_removed[member] = member, true
end
local function remove(key, members)
  for i = 1, #members, 5000 do
    redis.call('ZREM', key, unpack(members, i, math.min(#members, i + 4999)))
  end
end
local at = 13
local returned, still_held, granted = {}, {}, {}

for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, 1000)) do
  mark_removed(removed_leases, id)
end
for i = 1, tonumber(ARGV[8]) do
  local held = not is_removed[ARGV[at]] and redis.call('ZSCORE', KEYS[3], ARGV[at])
  if held then
    mark_removed(removed_leases, ARGV[at])
  end
  returned[i], at = held and 1 or 0, at + 1
end
local freed = #removed_leases
if #ARGV == 12 + ARGV[8] + 3 * ARGV[9] + ARGV[10] then
  -- An exchange without requests must not be refused. A server that is out of memory may refuse the
  -- first write of a script. A ZREM is never refused, and no write after the first one is. So this
  -- ZREM, which removes nothing, is the first write.
  redis.call('ZREM', KEYS[3], '')
end
for i = 1, tonumber(ARGV[9]) do
  local held = not is_removed[ARGV[at]] and redis.call('ZSCORE', KEYS[3], ARGV[at])
  if held then
    local ends = now + ARGV[at + 1]
    -- An extension may have set a later end, on which the holder of the permit relies.
    if ARGV[at + 2] == '1' or ends > tonumber(held) then
      redis.call('ZADD', KEYS[3], string.format('%.0f', ends), ARGV[at])
    end
  end
  still_held[i], at = held and 1 or 0, at + 3
end
returned, still_held = table.concat(returned), table.concat(still_held)

local queue_moved = false
for _ = 1, tonumber(ARGV[10]) do
  if redis.call('ZSCORE', KEYS[4], ARGV[at]) then
    mark_removed(removed_positions, ARGV[at])
    queue_moved = true
  end
  at = at + 1
end
if not stored and ARGV[6] == '' then
  remove(KEYS[3], removed_leases)
  remove(KEYS[4], removed_positions)
  return answer({'-', 0, -1, -1, returned, still_held})
end

local left = stored and tonumber(stored) or ARGV[6] - redis.call('ZCARD', KEYS[3]) + freed
if stored then
  left = left + freed + tonumber(ARGV[7])
end
-- The number of permits, as Redisson counts it: available and leased ones. The sorted set still has
-- the leases that are removed below, so `freed` is not added.
local number = stored and stored + redis.call('ZCARD', KEYS[3])
local differs = number and ARGV[6] ~= '' and number ~= tonumber(ARGV[6])
local requests, by_position = {}, {}
while ARGV[at] and not differs do
  local request = {n = tonumber(ARGV[at]), position = ARGV[at + 1], lease = tonumber(ARGV[at + 2]), ids = at + 3}
  at = at + 3 + (request.lease > 0 and request.n or 0)
  requests[#requests + 1] = request
  if request.position ~= '' then
    by_position[request.position] = request
  end
end
local function take(request)
  left = left - request.n
  request.granted = true
  if request.lease > 0 then
    local ends = string.format('%.0f', now + request.lease)
    for i = request.ids, request.ids + request.n - 1 do
      redis.call('ZADD', KEYS[3], ends, ARGV[i])
    end
  end
end

if KEYS[4] then
  if next(by_position) then
    redis.call('ZADD', KEYS[5], string.format('%.0f', now + ARGV[12]), ARGV[11])
  end
  for _, request in ipairs(requests) do
    if request.position ~= '' and not redis.call('ZSCORE', KEYS[4], request.position) then
      local last = redis.call('ZRANGE', KEYS[4], -1, -1, 'WITHSCORES')[2] or 0
      redis.call('ZADD', KEYS[4], string.format('%.0f', last + 1), request.position)
    end
  end
  local is_live, is_blocked, rank = {}, false, 0
  while not is_blocked do
    local head = redis.call('ZRANGE', KEYS[4], rank, rank)[1]
    if not head then
      break
    end
    local client, n = string.match(head, '^(.*):(%d+):%d+$')
    if client and is_live[client] == nil then
      is_live[client] = tonumber(redis.call('ZSCORE', KEYS[5], client) or 0) > now
    end
    if is_removed[head] then
      rank = rank + 1
    elseif client and is_live[client] and (tonumber(n) > left or not by_position[head]) then
      is_blocked = true
    else
      if client and is_live[client] then
        take(by_position[head])
      end
      -- The next waiter may have polled before the queue moved. The message at the end of this
      -- script makes that waiter poll again.
      queue_moved = true
      mark_removed(removed_positions, head)
      rank = rank + 1
    end
  end
  for _, request in ipairs(requests) do
    -- A try-only request has no position. It is granted only if no live waiter is left in the
    -- queue.
    if request.position == '' and not is_blocked and request.n <= left then
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
  granted[i] = request.granted and '1' or '0'
end

if not stored then
  redis.call('SET', KEYS[2], string.format('%.0f', left))
elseif left ~= tonumber(stored) then
  redis.call('INCRBY', KEYS[2], string.format('%.0f', left - stored))
end
if ARGV[9] ~= '0' or next(requests) and requests[1].lease > 0 then
  -- KEYS[3] gets the lifetime of KEYS[2], because Redisson's addPermits removes only the lifetime
  -- of KEYS[2].
  local lifetime = redis.call('PTTL', KEYS[2])
  if lifetime > 0 then
    redis.call('PEXPIRE', KEYS[3], lifetime)
  elseif lifetime == -1 then
    redis.call('PERSIST', KEYS[3])
  end
end
local receivers = -1
if left > 0 and (queue_moved or freed > 0 or tonumber(ARGV[7]) > 0) then
  receivers = redis.pcall(ARGV[4], ARGV[5], string.format('%.0f', left))
  if type(receivers) ~= 'number' then
    -- The server has refused the message. The returns stay in effect, and subscribers notice them
    -- by polling. If the subscribers cannot be counted, two are assumed.
    local subscribers = redis.pcall('PUBSUB', ARGV[4] == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', ARGV[5])
    receivers = -2 - (subscribers[2] or 2)
  end
end
remove(KEYS[3], removed_leases)
remove(KEYS[4], removed_positions)
-- `pcall`: if the key has become empty, it cannot be accessed while the slot migrates.
local first_end = redis.pcall('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
first_end = first_end and math.max(0, tonumber(first_end) - now) or -1
granted = differs and string.format('=%.0f', number) or table.concat(granted)
return answer({granted, string.format('%.0f', left), receivers, string.format('%.0f', first_end), returned, still_held})
