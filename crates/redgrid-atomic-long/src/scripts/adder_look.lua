-- adder_look.lua: see how far a round of an adder has come.
--
-- KEYS[1]  semaphore  string; how many have answered
-- KEYS[2]  round      string; see adder_enter.lua
-- KEYS[3]  counter    string; what was answered so far
-- Returns  {answered, round, sum}  each empty where it is not there
--
-- Work: O(1), only reads.
return {redis.call('GET', KEYS[1]) or '', redis.call('GET', KEYS[2]) or '', redis.call('GET', KEYS[3]) or ''}
