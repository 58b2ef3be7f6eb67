-- restore.lua: creates the keys of an object from their dumped contents, all or none.
--
-- KEYS     the object's own keys, and then its additional keys (see `Object::also_renames`)
-- ARGV[1]  the condition: "free": the object must be absent; "any": an existing object is replaced;
--          "same": the present contents of the object's keys must have the given SHA-1s
-- ARGV[2]  1 to return the SHA-1 of each key's content
-- ARGV[3]  the number of the object's own keys. Own keys without a given content are deleted;
--          additional keys without a given content are not changed
-- ARGV[4]  the number of primary keys: the object exists while one of them exists
-- ARGV[5…] for each key four arguments: 1 if a content is given, else 0; the content; its lifetime
--          in milliseconds (0: none); and for "same" the SHA-1 that the present content must have
-- Returns  {1}: done; if requested, the SHA-1 of each key follows, empty for an absent key;
--          {0}: the condition is not met, and nothing was changed
local own = tonumber(ARGV[3])
local function arg_of(i, n)
    return ARGV[4 * i + n]
end
local function sha(i)
    local content = redis.call('DUMP', KEYS[i])
    return content and redis.sha1hex(content) or ''
end
if ARGV[1] == 'free' and redis.call('EXISTS', unpack(KEYS, 1, tonumber(ARGV[4]))) > 0 then
    return {0}
end
for i = 1, ARGV[1] == 'same' and #KEYS or 0 do
    if sha(i) ~= arg_of(i, 4) then
        return {0}
    end
end
-- The present contents of the keys. If the server refuses to write a key, the keys before it get
-- these contents back.
local before, left = {}, {}
for i = 1, #KEYS - 1 do
    before[i], left[i] = redis.call('DUMP', KEYS[i]), redis.call('PTTL', KEYS[i])
end
for i = 1, #KEYS do
    local reply
    if arg_of(i, 1) == '1' then
        reply = redis.pcall('RESTORE', KEYS[i], arg_of(i, 3), arg_of(i, 2), 'REPLACE')
    elseif i <= own then
        reply = redis.pcall('DEL', KEYS[i])
    end
    if type(reply) == 'table' and reply.err then
        for j = 1, i - 1 do
            if before[j] then
                local lifetime = left[j] < 0 and 0 or math.max(left[j], 1)
                redis.pcall('RESTORE', KEYS[j], string.format('%.0f', lifetime), before[j], 'REPLACE')
            elseif arg_of(j, 1) == '1' then
                redis.pcall('DEL', KEYS[j])
            end
        end
        return reply
    end
end
local result = {1}
for i = 1, ARGV[2] == '1' and #KEYS or 0 do
    result[i + 1] = sha(i)
end
return result
