-- delete_if_same.lua: deletes an object if it is unchanged. If requested, also stores a receipt for
-- a while. The receipt says where the object was moved to.
--
-- KEYS     the object's own keys, and then its additional keys (see `Object::also_renames`); then
--          the key of the receipt, if a receipt is to be stored
-- ARGV[1]  the number of keys, not counting the key of the receipt
-- ARGV[2]  the content of the receipt
-- ARGV[3]  lifetime of the receipt, in milliseconds
-- ARGV[4…] for each key except the receipt's, two arguments: the expected SHA-1 of its content,
--          empty if the key must be absent; and the expected end of its lifetime in ms since 1970
--          (0: never, -1: any)
-- Returns  1: deleted; 0: changed
local count = tonumber(ARGV[1])
local function is_unchanged(i)
    local sha, expected_end = ARGV[2 + 2 * i], tonumber(ARGV[3 + 2 * i])
    local left = redis.call('PTTL', KEYS[i])
    local time = redis.call('TIME')
    local content = redis.call('DUMP', KEYS[i])
    if not content then
        return sha == ''
    end
    local current_end = left >= 0 and time[1] * 1000 + math.floor(time[2] / 1000) + left or 0
    -- The end is computed from the replies of two commands, and some time may pass between them. So
    -- a difference of up to 100 ms is allowed.
    local same = expected_end == -1
        or current_end == expected_end
        or (current_end > 0 and expected_end > 0 and math.abs(current_end - expected_end) <= 100)
    return same and redis.sha1hex(content) == sha
end
for i = 1, count do
    if not is_unchanged(i) then
        return 0
    end
end
if #KEYS > count then
    redis.call('SET', KEYS[#KEYS], ARGV[2], 'PX', ARGV[3])
end
redis.call('DEL', unpack(KEYS, 1, count))
return 1
