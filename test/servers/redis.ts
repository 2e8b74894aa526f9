import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { freePort } from './ports.js';
import { isOnPath } from './programs.js';

/** Why no suite that needs Redis runs here; undefined if they do. */
export const noRedis: string | undefined = process.env['REDIS_URL'] || isOnPath('redis-server') ? undefined : missing();

function missing(): string {
  const reason = 'redis-server is not on the PATH and REDIS_URL is not set';
  process.stderr.write(`skipped: tests that need Redis, since ${reason}\n`);
  return reason;
}

/** `describe` where there is a Redis; elsewhere its tests count as skipped. */
export const describeRedis = noRedis === undefined ? describe : describe.skip;

/** Faults and clusters need a server of their own, whatever REDIS_URL names. */
export const describeOwnRedis = isOnPath('redis-server') ? describe : describe.skip;

/** A place in a Redis that may hold other things: every key begins with `prefix`, and `clear` removes those only. */
export interface RedisPlace {
  url: string;
  prefix: string;
  clear(): Promise<void>;
}

/** Starts a server unless REDIS_URL names one. `stop` when all is done. */
export async function startRedis(): Promise<{ url: string; place(): RedisPlace; stop(): Promise<void> }> {
  const given = process.env['REDIS_URL'];
  const own = given ? undefined : await RedisServer.start();
  const url = given ?? own!.url;
  return {
    url,
    place: () => {
      const prefix = `credence-test-${randomUUID()}`;
      return { url, prefix, clear: () => removeKeys(url, prefix) };
    },
    stop: async () => own?.stop(),
  };
}

async function removeKeys(url: string, prefix: string): Promise<void> {
  const redis = new Redis(url);
  for await (const keys of redis.scanStream({ match: `*${prefix}*`, count: 1_000 })) {
    if ((keys as string[]).length > 0) await redis.unlink(...(keys as string[]));
  }
  await redis.quit();
}

/** A redis-server of one test, on loopback and a free port, its files in a temporary folder. */
export class RedisServer {
  private process: ChildProcess | undefined;

  static async start(options: Record<string, string> = {}): Promise<RedisServer> {
    const server = new RedisServer(await freePort(), await mkdtemp(join(tmpdir(), 'credence-redis-')), options);
    await server.run();
    return server;
  }

  private constructor(
    readonly port: number,
    private readonly folder: string,
    private readonly options: Record<string, string>,
  ) {}

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  get pid(): number {
    return this.process!.pid!;
  }

  /** Starts it on the same port, with what its folder holds. */
  async run(): Promise<void> {
    const settings = { bind: '127.0.0.1', port: String(this.port), dir: this.folder, save: '', ...this.options };
    const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
    const child = spawn('redis-server', args, { stdio: ['ignore', 'pipe', 'inherit'] });
    this.process = child;
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    for (let waited = 0; !/Ready to accept connections/.test(output); waited += 10) {
      if (child.exitCode !== null || waited > 60_000) throw new Error(`redis-server did not start: ${output}`);
      await sleep(10);
    }
  }

  /** kill −9: nothing is saved that was not saved before. */
  async kill(): Promise<void> {
    const child = this.process;
    this.process = undefined;
    if (!child || child.exitCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }

  /** Stops it answering without closing a connection. */
  pause(): void {
    this.process!.kill('SIGSTOP');
  }

  resume(): void {
    this.process?.kill('SIGCONT');
  }

  async stop(): Promise<void> {
    await this.kill();
    await rm(this.folder, { recursive: true, force: true });
  }
}
