-- adder_round_state.lua: the state of a round of an adder.
--
-- KEYS[1]  semaphore  string; the number of answers
-- KEYS[2]  round      string; see adder_enter.lua
-- KEYS[3]  counter    string; the sum of the answers
-- Returns  {answered, round, sum}  each is empty if its key does not exist
--
-- Work: O(1), only reads.
return {redis.call('GET', KEYS[1]) or '', redis.call('GET', KEYS[2]) or '', redis.call('GET', KEYS[3]) or ''}
