import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../contracts/harness.js';
import { freePort } from './ports.js';
import { RedisServer } from './redis.js';

/** Two redis-servers that replace one another, on loopback. */
export interface WatchedRedis {
  url: string;
  /** The server that is the master now. */
  master(): RedisServer;
  stop(): Promise<void>;
}

const NAME = 'credence';

/** A master and a replica, watched by three Sentinels. */
export async function startSentinels(): Promise<WatchedRedis> {
  const master = await RedisServer.start();
  const replica = await RedisServer.start({ replicaof: `127.0.0.1 ${master.port}` });
  const folder = await mkdtemp(join(tmpdir(), 'credence-sentinels-'));
  const sentinels: { port: number; child: ChildProcess }[] = [];
  for (let n = 0; n < 3; n++) {
    const port = await freePort();
    const file = join(folder, `sentinel-${n}.conf`);
    await writeFile(
      file,
      [
        `port ${port}`,
        'bind 127.0.0.1',
        `dir ${folder}`,
        `sentinel monitor ${NAME} 127.0.0.1 ${master.port} 2`,
        `sentinel down-after-milliseconds ${NAME} 1000`,
        `sentinel failover-timeout ${NAME} 10000`,
      ].join('\n'),
    );
    sentinels.push({ port, child: spawn('redis-server', [file, '--sentinel'], { stdio: 'ignore' }) });
  }
  const sentinel = (port: number, ...command: string[]): string => {
    try {
      return execFileSync('redis-cli', ['-p', String(port), 'SENTINEL', ...command], { encoding: 'utf8' });
    } catch {
      return '';
    }
  };
  const knowsAll = ({ port }: { port: number }) =>
    /num-slaves\n1\n/.test(sentinel(port, 'MASTER', NAME)) &&
    /num-other-sentinels\n2\n/.test(sentinel(port, 'MASTER', NAME));
  await eventually(() => sentinels.every(knowsAll), 'Sentinels that know one another');
  const servers = [master, replica];
  return {
    url: `redis://${sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')}?sentinel=${NAME}`,
    master() {
      const [, port] = sentinel(sentinels[0]!.port, 'GET-MASTER-ADDR-BY-NAME', NAME).trim().split('\n');
      return servers.find((server) => server.port === Number(port))!;
    },
    async stop() {
      for (const { child } of sentinels) child.kill('SIGKILL');
      await Promise.all(servers.map((server) => server.stop()));
      await rm(folder, { recursive: true, force: true });
    },
  };
}
