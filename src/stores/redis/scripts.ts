import { Script } from './connection.js';

/**
 * Lua scripts for steps that must be atomic. A generation is four keys in one hash slot, always passed in this order:
 *
 * - state (hash): status, views, log, checkpoint, batch, the lease: holder, until, ttl (ms), and the numbers of entries
 *   in rows and ranges, since an evicting server or an operator may have removed some
 * - rows (hash): address → content, of rows without a sort key
 * - index (sorted set, by bytes): the addresses in `rows`, to page through them
 * - ranges (sorted set, by bytes): address NUL content, of rows with a sort key
 *
 * Addresses are those of `rowAddress`; a content is JSON and so contains no NUL.
 */

/** The time of the server, unless the caller has a clock of its own: machines need not agree on the time. */
export const NOW = `
local function now(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
`;

/** The time of the server that has the key. */
export const TIME = new Script(`
return redis.call('TIME')
`);

/**
 * Whether a lease is held. If it ends later than its duration allows, the clock was set back, and it does not count.
 */
export const HELD = `
local function held(holder, expires, ttl, at)
  if not holder then return false end
  local left = tonumber(expires) - at
  return left > 0 and left <= tonumber(ttl)
end
`;

/** Whether all written rows exist, in constant time. */
const WHOLE = `
local function whole(rows, ranges)
  local count = tonumber(rows)
  return redis.call('HLEN', KEYS[2]) == count and redis.call('ZCARD', KEYS[3]) == count
    and redis.call('ZCARD', KEYS[4]) == tonumber(ranges)
end
`;

/** Splits commands with more values than fit on Lua's stack. */
export const IN_CHUNKS = `
local CHUNK = 4000
local function in_chunks(command, key, values, from, to)
  for i = from, to, CHUNK do
    redis.call(command, key, unpack(values, i, math.min(i + CHUNK - 1, to)))
  end
end
`;

/**
 * Adds rows that `packRows` has packed. Rows with a sort key must not be there yet. Scores are texts, since Redis would
 * format numbers.
 */
export const ADD_ROWS = `${IN_CHUNKS}
local function add_rows(plain, entries, rows, index, ranges)
  in_chunks('HSET', rows, plain, 1, #plain)
  local members = {}
  for i = 1, #plain, 2 do members[i], members[i + 1] = '0', plain[i] end
  in_chunks('ZADD', index, members, 1, #members)
  in_chunks('ZADD', ranges, entries, 1, #entries)
end
`;

/** ARGV: checkpoint, views, log. Only for keys that no other process knows yet. */
export const CREATE = new Script(`
redis.call('HSET', KEYS[1], 'status', 'building', 'checkpoint', ARGV[1], 'views', ARGV[2], 'log', ARGV[3], 'batch', '',
  'rows', '0', 'ranges', '0')
return 1
`);

/** ARGV: status, log or empty. A dropped generation stays dropped. */
export const SET_STATUS = new Script(`
local state = redis.call('HMGET', KEYS[1], 'status', 'log')
if not state[1] or state[1] == 'dropped' or (ARGV[2] ~= '' and state[2] ~= ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], 'status', ARGV[1])
return 1
`);

/** ARGV: holder, ttl, time, log or empty. */
export const ACQUIRE_LEASE = new Script(`${NOW}${HELD}
local state = redis.call('HMGET', KEYS[1], 'status', 'holder', 'until', 'ttl', 'log')
if not state[1] or state[1] == 'dropped' or (ARGV[4] ~= '' and state[5] ~= ARGV[4]) then return 0 end
local at = now(ARGV[3])
if state[2] ~= ARGV[1] and held(state[2], state[3], state[4], at) then return 0 end
redis.call('HSET', KEYS[1], 'holder', ARGV[1], 'until', string.format('%.0f', at + ARGV[2]), 'ttl', ARGV[2])
return 1
`);

/** ARGV: holder. */
export const RELEASE_LEASE = new Script(`
if redis.call('HGET', KEYS[1], 'holder') ~= ARGV[1] then return 0 end
redis.call('HDEL', KEYS[1], 'holder', 'until', 'ttl')
return 1
`);

/**
 * ARGV: time. Returns the state of a generation without rows: status, views, log, checkpoint, holder, until or nothing.
 */
export const DESCRIBE = new Script(`${NOW}${HELD}${WHOLE}
local state = redis.call('HMGET', KEYS[1], 'status', 'views', 'log', 'checkpoint', 'holder', 'until', 'ttl', 'rows', 'ranges')
if state[1] and state[1] ~= 'dropped' and not whole(state[8], state[9]) then state[1] = 'damaged' end
if not held(state[5], state[6], state[7], now(ARGV[1])) then state[5] = false end
return state
`);

/**
 * Applies rows and the checkpoint in one step. ARGV:
 * - batch id, base, next, holder, time, log
 * - the number of deletes without a sort key
 * - the puts without a sort key, then those with one, as `packRows` makes them
 * - of the puts with a sort key: how many at the start are new
 * - the addresses of the deletes, first those without a sort key
 *
 * A missing checkpoint or holder equals nothing, so nothing is applied then, nor to a generation of another log or one
 * that has lost rows. A batch whose id is already stored has been applied: the client sends a script again if its reply
 * was lost.
 */
export const APPLY = new Script(`${NOW}${HELD}${WHOLE}${ADD_ROWS}
local state = redis.call('HMGET', KEYS[1], 'status', 'checkpoint', 'batch', 'holder', 'until', 'ttl', 'log', 'rows', 'ranges')
if not state[1] or state[1] == 'dropped' then return 0 end
if state[3] == ARGV[1] then return 1 end
if state[2] ~= ARGV[2] or state[4] ~= ARGV[4] or not held(state[4], state[5], state[6], now(ARGV[5])) then return 0 end
if state[7] ~= ARGV[6] or not whole(state[8], state[9]) then return 0 end
-- Where memory is full this fails, before anything is removed; what follows a write of the same script is let through.
redis.call('HSETNX', KEYS[1], 'log', state[7])

local at = 11
local count = tonumber(ARGV[7])
local function remove(address)
  redis.call('ZREMRANGEBYLEX', KEYS[4], '[' .. address .. '\\0', '(' .. address .. '\\1')
end
in_chunks('HDEL', KEYS[2], ARGV, at, at + count - 1)
in_chunks('ZREM', KEYS[3], ARGV, at, at + count - 1)
for i = at + count, #ARGV do remove(ARGV[i]) end

local plain, entries = cmsgpack.unpack(ARGV[8]), cmsgpack.unpack(ARGV[9])
for i = 2 * ARGV[10] + 2, #entries, 2 do
  local first = string.find(entries[i], '\\0', 1, true)
  local second = string.find(entries[i], '\\0', first + 1, true)
  remove(string.sub(entries[i], 1, string.find(entries[i], '\\0', second + 1, true) - 1))
end
add_rows(plain, entries, KEYS[2], KEYS[3], KEYS[4])
redis.call('HSET', KEYS[1], 'checkpoint', ARGV[3], 'batch', ARGV[1], 'rows', redis.call('HLEN', KEYS[2]),
  'ranges', redis.call('ZCARD', KEYS[4]))
return 1
`);

/**
 * Returns status, checkpoint, and the results of the queries, in one snapshot. ARGV: the number of rows without a sort
 * key, and their addresses; then each other query with its kind: for "s" (a row with a sort key) its address; for "f"
 * and "b" (a range forwards and backwards) its start, its end and the limit. The answer: status, checkpoint, the
 * contents of the rows without a sort key, then the result of each other query.
 */
export const READ = new Script(`${WHOLE}
local state = redis.call('HMGET', KEYS[1], 'status', 'checkpoint', 'rows', 'ranges')
if not state[1] or state[1] == 'dropped' then return false end
if not whole(state[3], state[4]) then state[1] = 'damaged' end
local rows = {}
local count = tonumber(ARGV[1])
for from = 2, count + 1, 4000 do
  local chunk = redis.call('HMGET', KEYS[2], unpack(ARGV, from, math.min(from + 3999, count + 1)))
  if from == 2 then
    rows = chunk
  else
    for i = 1, #chunk do rows[from - 2 + i] = chunk[i] end
  end
end
local answer = { state[1], state[2], rows }
local i, n = count + 2, 3
while i <= #ARGV do
  local kind = ARGV[i]
  n = n + 1
  if kind == 's' then
    local found = redis.call('ZRANGE', KEYS[4], '[' .. ARGV[i + 1] .. '\\0', '(' .. ARGV[i + 1] .. '\\1', 'BYLEX', 'LIMIT', 0, 1)
    answer[n] = found[1] or ''
    i = i + 2
  else
    if kind == 'f' then
      answer[n] = redis.call('ZRANGE', KEYS[4], ARGV[i + 1], ARGV[i + 2], 'BYLEX', 'LIMIT', 0, ARGV[i + 3])
    else
      answer[n] = redis.call('ZRANGE', KEYS[4], ARGV[i + 1], ARGV[i + 2], 'BYLEX', 'REV', 'LIMIT', 0, ARGV[i + 3])
    end
    i = i + 4
  end
end
return answer
`);

/** ARGV: start, end, limit. Returns the addresses of rows without a sort key, and their contents. */
export const SCAN_ROWS = new Script(`
local status = redis.call('HGET', KEYS[1], 'status')
if not status or status == 'dropped' then return { {}, {} } end
local addresses = redis.call('ZRANGE', KEYS[3], ARGV[1], ARGV[2], 'BYLEX', 'LIMIT', 0, ARGV[3])
if #addresses == 0 then return { {}, {} } end
return { addresses, redis.call('HMGET', KEYS[2], unpack(addresses)) }
`);

/** ARGV: start, end, limit. Returns rows with a sort key, as stored. */
export const SCAN_RANGES = new Script(`
local status = redis.call('HGET', KEYS[1], 'status')
if not status or status == 'dropped' then return {} end
return redis.call('ZRANGE', KEYS[4], ARGV[1], ARGV[2], 'BYLEX', 'LIMIT', 0, ARGV[3])
`);

/** ARGV: start, end. */
export const COUNT = new Script(`
return redis.call('ZLEXCOUNT', KEYS[3], ARGV[1], ARGV[2]) + redis.call('ZLEXCOUNT', KEYS[4], ARGV[1], ARGV[2])
`);

/**
 * KEYS: manifest (hash: revision, text, by, incarnation). ARGV: previous revision, revision, text, id of this attempt,
 * incarnation or empty.
 */
export const SWAP_MANIFEST = new Script(`
local stored = redis.call('HMGET', KEYS[1], 'revision', 'by', 'incarnation')
if stored[2] == ARGV[4] then return 1 end
if (stored[1] or '0') ~= ARGV[1] or (stored[3] or ARGV[5]) ~= ARGV[5] then return 0 end
redis.call('HSET', KEYS[1], 'revision', ARGV[2], 'text', ARGV[3], 'by', ARGV[4])
if ARGV[5] ~= '' then redis.call('HSET', KEYS[1], 'incarnation', ARGV[5]) end
return 1
`);
