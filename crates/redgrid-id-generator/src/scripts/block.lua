-- block.lua: take one block of ids, or several that follow each other, as Redisson takes one.
--
-- KEYS[1]  next        string; the first id of the next block; absent is 1
-- KEYS[2]  allocation  string; how many ids a block has; absent is 5000, and is written
-- ARGV[1]  wanted      how many ids are wanted
-- ARGV[2]  skip        how many ids are left out first: those that a server has forgotten to have given; empty for none
-- Returns  {'block', first, ids}     in decimal text
--          {'strange', key, what}    what is under that key is no such number: `next` or `allocation`; nothing is changed
--
-- Work: O(1), writes at most two keys. Sent twice, it takes twice: a block that nobody is told of is not given. Numbers of this
-- language are exact up to 2^53, so larger ones stay text. What is beyond 2^63 is refused by the server.
local next, size = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])
if next and not string.match(next, '^-?%d+$') then
  return {'strange', 'next', string.sub(next, 1, 64)}
end
if size and not string.match(size, '^[1-9]%d*$') then
  return {'strange', 'allocation', string.sub(size, 1, 64)}
end
if not size then
  size = '5000'
  redis.call('SET', KEYS[2], size)
end
if not next then
  redis.call('SET', KEYS[1], '1')
end
if ARGV[2] ~= '' then
  local skipped = redis.pcall('INCRBY', KEYS[1], ARGV[2])
  if type(skipped) == 'table' and skipped.err then
    return skipped
  end
end
local first, ids = redis.call('GET', KEYS[1]), size
local many = tonumber(size) * math.ceil(tonumber(ARGV[1]) / tonumber(size))
if many > tonumber(size) and many < 2 ^ 53 then
  ids = string.format('%.0f', many)
end
local taken = redis.pcall('INCRBY', KEYS[1], ids)
if type(taken) == 'table' and taken.err and ids ~= size then
  -- Near the end there may be one block, where there are not so many.
  ids = size
  taken = redis.pcall('INCRBY', KEYS[1], ids)
end
if type(taken) == 'table' and taken.err then
  return taken
end
return {'block', first, ids}
