-- Deletes the keys if each is what it was. 0: one is not, 1: done.
-- ARGV: the SHA-1 of each one's content, nothing where there was none.
for i = 1, #KEYS do
    local content = redis.call('DUMP', KEYS[i])
    if (content and redis.sha1hex(content) or '') ~= ARGV[i] then
        return 0
    end
end
redis.call('DEL', unpack(KEYS))
return 1
