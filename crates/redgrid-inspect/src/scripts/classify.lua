-- classify.lua: describe what is stored at a key, with a bounded amount of work.
--
-- KEYS[1]  key   of any type
-- KEYS[2…] companions that the object of this key may have; left out for other keys:
--          2  the queue of a fair lock (list)
--          3  the leader of an election (hash)
--          4  the leases of a semaphore, or the subscribers of a reliable topic (sorted set)
--          5  the queue of a fair semaphore (sorted set)
--          6  the generation of a latch (string)
--          7  the block size of an id generator (string)
--          8  the configuration of a Bloom filter (hash)
--          9  the ends of the lifetimes in a map cache (sorted set)
-- ARGV     types of these companions, from 2 on; instead of their keys, while a slot moves
-- Returns  {'none'}                         nothing is stored there
--          {type, left, size, kind, field}  as text; `left` is the PTTL; `size` is the number of
--                                           elements, or of bytes of a string, and -1 if unknown;
--                                           `kind` is a word, '' for the plain type; `field` is the
--                                           field of a lock's holder, or ''
--
-- Work: O(1), writes nothing. At most eight fields of a hash are read, and values of at most 20
-- bytes. Sent twice, it returns twice.
local function is(at, wanted)
  return (KEYS[at] and redis.call('TYPE', KEYS[at]).ok or ARGV[at - 1]) == wanted
end

local function is_number(key)
  return redis.call('STRLEN', key) <= 20 and string.find(redis.call('GET', key), '^-?%d+$') ~= nil
end

local function kind_of_hash(n)
  local holder, mode = lock_at(KEYS[1], n)
  if holder and mode ~= '' then
    return 'rw', n == 2 and holder or ''
  end
  if holder then
    return is(3, 'hash') and 'election' or is(2, 'list') and 'fair' or 'lock', holder
  end
  if redis.call('HEXISTS', KEYS[1], 'rate') + redis.call('HEXISTS', KEYS[1], 'interval') == 2 then
    return 'rate', ''
  end
  return is(9, 'zset') and 'cache' or '', ''
end

local function kind_of_string()
  if is(8, 'hash') then
    return 'bloom'
  end
  if not is_number(KEYS[1]) then
    return ''
  end
  return is(4, 'zset') and 'leased' or is(5, 'zset') and 'semaphore' or is(6, 'string') and 'latch'
    or is(7, 'string') and 'ids' or 'number'
end

local lengths = {hash = 'HLEN', string = 'STRLEN', list = 'LLEN', set = 'SCARD', zset = 'ZCARD', stream = 'XLEN'}
local found = redis.call('TYPE', KEYS[1]).ok
if found == 'none' then
  return {'none'}
end
local size = lengths[found] and redis.call(lengths[found], KEYS[1]) or -1
local kind, field = '', ''
if found == 'hash' then
  kind, field = kind_of_hash(size)
  -- The mode of a read-write lock is no holder.
  size = kind == 'rw' and size - 1 or size
elseif found == 'string' then
  kind = kind_of_string()
elseif found == 'stream' and is(4, 'zset') then
  kind = 'topic'
end
return {found, tostring(redis.call('PTTL', KEYS[1])), tostring(size), kind, field}
