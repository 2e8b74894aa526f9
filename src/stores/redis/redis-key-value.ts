import { randomBytes } from 'node:crypto';
import type { Clock } from '../../kernel/clock.js';
import { canonicalJson } from '../../kernel/hash.js';
import type { Json } from '../../kernel/json.js';
import type { Logger } from '../../kernel/logger.js';
import { RedisConnection } from './connection.js';
import { type KeyValue, storedKey } from '../ports/key-value.js';

/**
 * An entry is a hash: `value`, canonical JSON so that equal values are equal texts, and `by`, the id of the call that
 * last wrote it on a condition. The client sends a script again if its reply was lost; by that id the call recognises
 * that it has already succeeded.
 */

/** ARGV: value, ttl. */
const PUT = `
redis.call('HSET', KEYS[1], 'value', ARGV[1])
redis.call('HDEL', KEYS[1], 'by')
redis.call('PEXPIRE', KEYS[1], ARGV[2])
`;

/** ARGV: value, ttl, id of the call. */
const PUT_IF_ABSENT = `
if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.call('HGET', KEYS[1], 'by') == ARGV[3] and 1 or 0
end
redis.call('HSET', KEYS[1], 'value', ARGV[1], 'by', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
`;

/** ARGV: value, ttl, id of the call, expected value. */
const REPLACE = `
local entry = redis.call('HMGET', KEYS[1], 'value', 'by')
if entry[1] and entry[2] == ARGV[3] then return 1 end
if entry[1] ~= ARGV[4] then return 0 end
redis.call('HSET', KEYS[1], 'value', ARGV[1], 'by', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
`;

const TAKE = `
local value = redis.call('HGET', KEYS[1], 'value')
redis.call('UNLINK', KEYS[1])
return value
`;

/** ARGV: ttl, what is added. Returns the count and its remaining time to live. */
const INCREMENT = `
local count = redis.call('HINCRBY', KEYS[1], 'value', ARGV[2])
if redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return { count, redis.call('PTTL', KEYS[1]) }
`;

/** In one step: Redis that is emptied between two commands would be told of twice. ARGV: what is stored if nothing is. */
const MARK = `
redis.call('SET', KEYS[1], ARGV[1], 'NX')
return redis.call('GET', KEYS[1])
`;

/** How often to look whether Redis still holds what it held, ms. */
const LOOK_MS = 1_000;
const LOST =
  'Redis has lost what it held: sign-ins under way must be begun again, limits on requests count from 0, and the records ' +
  'of jobs are gone. Jobs that finish what is recorded are queued again within a minute';

/** Short-lived state in Redis, which expires the entries; shared by all processes. */
export class RedisKeyValue implements KeyValue {
  private timer: NodeJS.Timeout | undefined;

  /**
   * @param options.prefix of every key
   * @throws StartError when Redis cannot be used
   */
  static async open(options: { url: string; clock: Clock; prefix?: string; logger?: Logger }): Promise<RedisKeyValue> {
    const { url, clock, prefix = 'credence', logger } = options;
    const connection = await RedisConnection.open(url, logger);
    const keyValue = new RedisKeyValue(connection, clock, `${prefix}:kv:`);
    if (logger) await keyValue.watch(logger);
    return keyValue;
  }

  private constructor(
    readonly redis: RedisConnection,
    private readonly clock: Clock,
    private readonly prefix: string,
  ) {}

  async get(key: string): Promise<Json | undefined> {
    return valueOf(await this.redis.send((client) => client.hget(this.stored(key), 'value')));
  }

  async put(key: string, value: Json, ttlMs: number): Promise<void> {
    await this.run(PUT, key, canonicalJson(value), Math.ceil(ttlMs));
  }

  async putIfAbsent(key: string, value: Json, ttlMs: number): Promise<boolean> {
    return (await this.run(PUT_IF_ABSENT, key, canonicalJson(value), Math.ceil(ttlMs), callId())) === 1;
  }

  async replace(key: string, expected: Json, next: Json, ttlMs: number): Promise<boolean> {
    const args = [canonicalJson(next), Math.ceil(ttlMs), callId(), canonicalJson(expected)];
    return (await this.run(REPLACE, key, ...args)) === 1;
  }

  async take(key: string): Promise<Json | undefined> {
    return valueOf((await this.run(TAKE, key)) as string | null);
  }

  async increment(key: string, ttlMs: number, by = 1): Promise<{ count: number; resets_at: number }> {
    const [count, left] = (await this.run(INCREMENT, key, Math.ceil(ttlMs), by)) as [number, number];
    return { count, resets_at: this.clock() + left };
  }

  async close(): Promise<void> {
    clearInterval(this.timer);
    await this.redis.close();
  }

  /** Says so if Redis was emptied, or replaced by an empty one. */
  private async watch(logger: Logger): Promise<void> {
    const key = `${this.prefix}held`;
    const mark = () => this.redis.send((client) => client.eval(MARK, 1, key, callId()));
    let known = await mark();
    const look = async () => {
      const found = await mark();
      if (found !== known) logger.warn(LOST);
      known = found;
    };
    // The connection logs that Redis is unavailable.
    this.timer = setInterval(() => void look().catch(() => undefined), LOOK_MS).unref();
  }

  /** Runs a script on an entry: atomically, as its commands are. */
  private run(script: string, key: string, ...args: (string | number)[]): Promise<unknown> {
    return this.redis.send((client) => client.eval(script, 1, this.stored(key), ...args));
  }

  private stored(key: string): string {
    return this.prefix + storedKey(key);
  }
}

function callId(): string {
  return randomBytes(9).toString('base64url');
}

function valueOf(text: string | null): Json | undefined {
  return text === null ? undefined : (JSON.parse(text) as Json);
}
