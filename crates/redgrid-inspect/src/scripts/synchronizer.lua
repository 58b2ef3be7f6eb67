-- synchronizer.lua: return the state of a synchronizer, with a bounded amount of work.
--
-- KEYS[1]  object  string with a number, or hash
-- KEYS[2…] companions of any type
-- ARGV     fields  that are read of a hash
-- Returns  {type, left, now, value, …, number, live, next, …}  as text; `left` is the PTTL;
--                  `now` is in milliseconds since 1970; the values are that of the string, or
--                  those of the fields. Each companion adds three parts: a sorted set its length,
--                  the number of its scores in the future, and the milliseconds until the first
--                  of them; a string its value, '' and ''; otherwise they are ''. A value of more
--                  than 100 bytes is ''
--
-- Work: O(log n) for n elements of a companion, writes nothing. Sent twice, it returns twice.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local now_text = string.format('%.0f', now)
local future = '(' .. now_text

local function text_of(key)
  return redis.call('STRLEN', key) <= 100 and redis.call('GET', key) or ''
end

local found = redis.call('TYPE', KEYS[1]).ok
local out = {found, tostring(redis.call('PTTL', KEYS[1])), now_text}
if found == 'string' then
  out[4] = text_of(KEYS[1])
elseif found == 'hash' then
  for _, field in ipairs(ARGV) do
    out[#out + 1] = redis.call('HSTRLEN', KEYS[1], field) <= 100 and redis.call('HGET', KEYS[1], field) or ''
  end
else
  return out
end
for at = 2, #KEYS do
  local kind, number, live, next_end = redis.call('TYPE', KEYS[at]).ok, '', '', ''
  if kind == 'zset' then
    number = tostring(redis.call('ZCARD', KEYS[at]))
    live = tostring(redis.call('ZCOUNT', KEYS[at], future, '+inf'))
    -- From this number on, a lease of Redisson has no end (lease.lua).
    local first = redis.call('ZRANGEBYSCORE', KEYS[at], future, '(922337203685477', 'WITHSCORES', 'LIMIT', 0, 1)
    next_end = first[2] and string.format('%.0f', math.ceil(tonumber(first[2]) - now)) or ''
  elseif kind == 'string' then
    number = text_of(KEYS[at])
  end
  for _, part in ipairs({number, live, next_end}) do
    out[#out + 1] = part
  end
end
return out
