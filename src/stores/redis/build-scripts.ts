import { Script } from './connection.js';
import { ADD_ROWS, HELD, NOW } from './scripts.js';

/**
 * Lua scripts of shared builds. Their keys are in the slot of the generation: its state, then
 *
 * - build (hash): id, plan, failure; the numbers of entries in rows and ranges; for each part that was claimed its holder
 *   or `done`, `<part>:until`, `<part>:ttl` and `<part>:progress`
 * - rows, index, ranges: as those of the generation, whose place they take at the end
 * - for each partition, and for what all depend on, a hash of events by range
 */

/** Whether the build of this id is under way. */
const OPEN = `
local function open(id)
  local status = redis.call('HGET', KEYS[1], 'status')
  return status and status ~= 'dropped' and redis.call('HGET', KEYS[2], 'id') == id
end
`;

/**
 * KEYS: state, build. ARGV: holder of the lease, time, checkpoint at the start, log, id, plan. Returns the plan of the
 * build under way, which is this one if there was none; false if the lease is not held or something was applied.
 */
export const BEGIN_BUILD = new Script(`${NOW}${HELD}
local state = redis.call('HMGET', KEYS[1], 'status', 'holder', 'until', 'ttl', 'checkpoint', 'log')
if not state[1] or state[1] == 'dropped' or state[5] ~= ARGV[3] or state[6] ~= ARGV[4] then return false end
if state[2] ~= ARGV[1] or not held(state[2], state[3], state[4], now(ARGV[2])) then return false end
local plan = redis.call('HGET', KEYS[2], 'plan')
if plan then return plan end
redis.call('HSET', KEYS[2], 'id', ARGV[5], 'plan', ARGV[6], 'rows', '0', 'ranges', '0')
return ARGV[6]
`);

/** KEYS: state, build. ARGV: id, time. Returns all fields of the build, then the time; false if it has ended. */
export const BUILD_STATE = new Script(`${NOW}${OPEN}
if not open(ARGV[1]) then return false end
local fields = redis.call('HGETALL', KEYS[2])
fields[#fields + 1] = string.format('%.0f', now(ARGV[2]))
return fields
`);

/** KEYS: state, build. ARGV: id, part, holder, ttl, time. */
export const CLAIM_PART = new Script(`${NOW}${HELD}${OPEN}
if not open(ARGV[1]) then return 0 end
local part = redis.call('HMGET', KEYS[2], ARGV[2], ARGV[2] .. ':until', ARGV[2] .. ':ttl')
if part[1] == 'done' then return 0 end
local at = now(ARGV[5])
if part[1] ~= ARGV[3] and held(part[1], part[2], part[3], at) then return 0 end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3], ARGV[2] .. ':until', string.format('%.0f', at + ARGV[4]),
  ARGV[2] .. ':ttl', ARGV[4], ARGV[2] .. ':progress', '0')
return 1
`);

/** KEYS: state, build. ARGV: id, part, holder, ttl, time, progress. */
export const RENEW_PART = new Script(`${NOW}${OPEN}
if not open(ARGV[1]) or redis.call('HGET', KEYS[2], ARGV[2]) ~= ARGV[3] then return 0 end
redis.call('HSET', KEYS[2], ARGV[2] .. ':until', string.format('%.0f', now(ARGV[5]) + ARGV[4]),
  ARGV[2] .. ':progress', ARGV[6])
return 1
`);

/** KEYS: state, build, a hash of events. ARGV: id, part, holder, range, events. */
export const SPILL = new Script(`${OPEN}
if not open(ARGV[1]) or redis.call('HGET', KEYS[2], ARGV[2]) ~= ARGV[3] then return 0 end
redis.call('HSET', KEYS[3], ARGV[4], ARGV[5])
return 1
`);

/**
 * KEYS: state, build, rows, index, ranges. ARGV: id, part, holder; the rows without and with a sort key as `packRows`
 * makes them. Returns 0 if the part is not held, -1 if rows were lost.
 */
export const PUT_ROWS = new Script(`${OPEN}${ADD_ROWS}
if not open(ARGV[1]) or redis.call('HGET', KEYS[2], ARGV[2]) ~= ARGV[3] then return 0 end
local stored = redis.call('HMGET', KEYS[2], 'rows', 'ranges')
if redis.call('HLEN', KEYS[3]) ~= tonumber(stored[1]) or redis.call('ZCARD', KEYS[5]) ~= tonumber(stored[2]) then return -1 end
add_rows(cmsgpack.unpack(ARGV[4]), cmsgpack.unpack(ARGV[5]), KEYS[3], KEYS[4], KEYS[5])
redis.call('HSET', KEYS[2], 'rows', redis.call('HLEN', KEYS[3]), 'ranges', redis.call('ZCARD', KEYS[5]))
return 1
`);

/** KEYS: state, build, and the events that are not needed any more. ARGV: id, part, holder, progress. */
export const COMPLETE_PART = new Script(`${OPEN}
if not open(ARGV[1]) then return 0 end
local holder = redis.call('HGET', KEYS[2], ARGV[2])
-- The client sends a script again if its reply was lost.
if holder == 'done' and redis.call('HGET', KEYS[2], ARGV[2] .. ':until') == ARGV[3] then return 1 end
if holder ~= ARGV[3] then return 0 end
redis.call('HSET', KEYS[2], ARGV[2], 'done', ARGV[2] .. ':until', ARGV[3], ARGV[2] .. ':progress', ARGV[4])
if KEYS[3] then redis.call('UNLINK', KEYS[3]) end
return 1
`);

/** KEYS: state, build. ARGV: id, reason. */
export const FAIL_BUILD = new Script(`${OPEN}
if not open(ARGV[1]) then return 0 end
redis.call('HSETNX', KEYS[2], 'failure', ARGV[2])
return 1
`);

/**
 * KEYS: state, build, rows, index, ranges of the build, those of the generation, and the hashes of events. ARGV: id,
 * holder of the lease, time, the checkpoint at the start, the next one. Returns -1 if rows were lost.
 */
export const FINISH_BUILD = new Script(`${NOW}${HELD}${OPEN}
local state = redis.call('HMGET', KEYS[1], 'status', 'checkpoint', 'batch', 'holder', 'until', 'ttl')
if state[1] and state[1] ~= 'dropped' and state[3] == ARGV[1] then return 1 end
if not open(ARGV[1]) or state[2] ~= ARGV[4] or state[4] ~= ARGV[2] then return 0 end
if not held(state[4], state[5], state[6], now(ARGV[3])) then return 0 end
local stored = redis.call('HMGET', KEYS[2], 'rows', 'ranges')
local rows, ranges = redis.call('HLEN', KEYS[3]), redis.call('ZCARD', KEYS[5])
if rows ~= tonumber(stored[1]) or ranges ~= tonumber(stored[2]) or redis.call('ZCARD', KEYS[4]) ~= rows then return -1 end
-- Where memory is full this fails, before anything is moved.
redis.call('HSET', KEYS[1], 'rows', rows, 'ranges', ranges, 'checkpoint', ARGV[5], 'batch', ARGV[1])
for n = 3, 5 do
  redis.call('UNLINK', KEYS[n + 3])
  if redis.call('EXISTS', KEYS[n]) == 1 then redis.call('RENAME', KEYS[n], KEYS[n + 3]) end
end
redis.call('UNLINK', KEYS[2], unpack(KEYS, 9))
return 1
`);

/** KEYS: state, and all keys of the build, which is the first of them. ARGV: id. The generation may be dropped. */
export const DISCARD_BUILD = new Script(`
if redis.call('HGET', KEYS[2], 'id') ~= ARGV[1] then return 0 end
redis.call('UNLINK', unpack(KEYS, 2))
return 1
`);
