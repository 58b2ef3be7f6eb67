-- Makes the keys from what was dumped, all or none. {0}: what is there is to stay, {1, …}: done.
-- ARGV: "free" where nothing may be there, "any", or "same" where it must be what is said; 1 where the SHA-1 of each key's content is to
-- be told, nothing where it has none; how many keys are the object's own: of those behind, the ones without content stay as they are;
-- by how many keys the object exists.
-- Then of each key: 1 where it has content, the content, its lifetime in milliseconds (0: none), and the SHA-1 of what must be there.
local own = tonumber(ARGV[3])
local function part(i, n)
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
    if sha(i) ~= part(i, 4) then
        return {0}
    end
end
-- What is there, to be put back where a later one is refused.
local before, left = {}, {}
for i = 1, #KEYS - 1 do
    before[i], left[i] = redis.call('DUMP', KEYS[i]), redis.call('PTTL', KEYS[i])
end
for i = 1, #KEYS do
    local done
    if part(i, 1) == '1' then
        done = redis.pcall('RESTORE', KEYS[i], part(i, 3), part(i, 2), 'REPLACE')
    elseif i <= own then
        done = redis.pcall('DEL', KEYS[i])
    end
    if type(done) == 'table' and done.err then
        for j = 1, i - 1 do
            if before[j] then
                local lifetime = left[j] < 0 and 0 or math.max(left[j], 1)
                redis.pcall('RESTORE', KEYS[j], string.format('%.0f', lifetime), before[j], 'REPLACE')
            elseif part(j, 1) == '1' then
                redis.pcall('DEL', KEYS[j])
            end
        end
        return done
    end
end
local told = {1}
for i = 1, ARGV[2] == '1' and #KEYS or 0 do
    told[i + 1] = sha(i)
end
return told
