import { execFileSync } from 'node:child_process';
import { eventually } from '../contracts/harness.js';
import { freePort } from './ports.js';
import { RedisServer } from './redis.js';

/** A Redis Cluster on loopback: three masters, each with a replica. */
export interface SixNodes {
  url: string;
  /** The servers that are masters now. */
  masters(): RedisServer[];
  /** Until every slot has a master, and every master a replica that is up to date. */
  whole(): Promise<void>;
  stop(): Promise<void>;
}

export async function startSixNodes(): Promise<SixNodes> {
  const servers: RedisServer[] = [];
  for (let n = 0; n < 6; n++) {
    servers.push(
      await RedisServer.start({
        'cluster-enabled': 'yes',
        'cluster-announce-ip': '127.0.0.1',
        // Otherwise 10,000 above the port, where another server may listen.
        'cluster-port': String(await freePort()),
        'cluster-node-timeout': '1000',
      }),
    );
  }
  const cli = (port: number, ...args: string[]): string => {
    try {
      return execFileSync('redis-cli', ['-p', String(port), ...args], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      });
    } catch {
      return '';
    }
  };
  const addresses = servers.map(({ port }) => `127.0.0.1:${port}`);
  const created = cli(
    servers[0]!.port,
    '--cluster',
    'create',
    ...addresses,
    '--cluster-replicas',
    '1',
    '--cluster-yes',
  );
  if (!/All 16384 slots covered/.test(created)) throw new Error(`The Redis Cluster was not created: ${created}`);
  const masters = () => servers.filter(({ port }) => /role:master/.test(cli(port, 'INFO', 'replication')));
  const whole = () => {
    /** By port: how much a master had written when it was first looked at. */
    const written = new Map<number, number>();
    const isCopied = ({ port }: RedisServer) => {
      const told = cli(port, 'INFO', 'replication');
      const [, offset] = /master_repl_offset:(\d+)/.exec(told) ?? [];
      if (offset !== undefined && !written.has(port)) written.set(port, Number(offset));
      return Number(/slave0:.*state=online,offset=(\d+)/.exec(told)?.[1]) >= written.get(port)!;
    };
    const isWhole = () =>
      servers.every(({ port }) => /cluster_state:ok/.test(cli(port, 'CLUSTER', 'INFO'))) &&
      masters().length === 3 &&
      masters().every(isCopied);
    return eventually(isWhole, 'a Redis Cluster of three masters and three replicas');
  };
  await whole();
  return {
    url: `redis://${addresses.join(',')}?cluster=true`,
    masters,
    whole,
    stop: async () => void (await Promise.all(servers.map((server) => server.stop()))),
  };
}
