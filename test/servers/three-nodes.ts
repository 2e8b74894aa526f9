import { mkdtemp, rm } from 'node:fs/promises';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../contracts/harness.js';
import { makeCertificates } from './certificates.js';
import { type EventStored, startEventStored } from './eventstored.js';
import { freePort } from './ports.js';
import { Proxy } from './proxy.js';

/** Three nodes of EventStoreDB with TLS and users, on disk. */
export class ThreeNodes {
  private constructor(
    private readonly folder: string,
    readonly nodes: readonly EventStored[],
    /** What clients know of the nodes: one in front of each. */
    readonly proxies: readonly Proxy[],
    readonly url: string,
  ) {}

  static async start(): Promise<ThreeNodes> {
    const folder = await mkdtemp(join(tmpdir(), 'credence-nodes-'));
    const certificates = makeCertificates(folder);
    const ports: [number, number][] = [];
    for (let n = 0; n < 3; n++) ports.push([await freePort(), await freePort()]);
    const proxies = await Promise.all(ports.map(([port]) => Proxy.to(port)));
    const of = (n: number) => [
      '--advertise-host-to-client-as=127.0.0.1',
      `--advertise-node-port-to-client-as=${proxies[n]!.port}`,
      `--certificate-file=${certificates.node}`,
      `--certificate-private-key-file=${certificates.key}`,
      `--trusted-root-certificates-path=${certificates.authorities}`,
      '--cluster-size=3',
      '--discover-via-dns=false',
      `--gossip-seed=${ports.flatMap(([port], other) => (other === n ? [] : [`127.0.0.1:${port}`])).join(',')}`,
    ];
    const nodes = await Promise.all(
      ports.map((each, n) => startEventStored({ onDisk: true, args: of(n), ports: each })),
    );
    const places = proxies.map(({ port }) => `127.0.0.1:${port}`).join(',');
    const url = `esdb://admin:changeit@${places}?tls=true&tlsCAFile=${certificates.authority}`;
    const started = new ThreeNodes(folder, nodes, proxies, url);
    await eventually(async () => (await started.leader()) !== undefined, 'a leader').catch(() => undefined);
    return started;
  }

  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.stop()));
    await Promise.all(this.proxies.map((proxy) => proxy.close()));
    await rm(this.folder, { recursive: true, force: true });
  }

  /** The node that the others follow, as one of them tells. */
  async leader(): Promise<EventStored | undefined> {
    for (const { port } of this.nodes) {
      const members = await gossip(port).catch(() => []);
      const found = members.find(({ state, isAlive }) => state === 'Leader' && isAlive);
      const n = this.proxies.findIndex((proxy) => proxy.port === found?.httpEndPointPort);
      if (n >= 0) return this.nodes[n];
    }
    return undefined;
  }

  hasNext(lost: EventStored): () => Promise<boolean> {
    return async () => ![undefined, lost].includes(await this.leader());
  }

  /** Starts the nodes that have ended, and waits until there is a leader. */
  async complete(): Promise<void> {
    for (const node of this.nodes) if (node.hasEnded) await node.start();
    const stays = async () => (await this.leader()) !== undefined && this.nodes.every((node) => !node.hasEnded);
    await eventually(stays, 'three nodes and a leader');
  }

  /**
   * Starts the other nodes than `lost` again when they end, as their supervisor would: a node that has more than the
   * next leader ends, and drops that when it is started.
   */
  async withRestarts(lost: EventStored, work: Promise<void>): Promise<void> {
    const others = this.nodes.filter((node) => node !== lost);
    const restarts = setInterval(() => {
      for (const node of others) if (node.hasEnded) node.start().catch(() => undefined);
    }, 500);
    await work.finally(() => clearInterval(restarts));
  }
}

interface Member {
  state: string;
  isAlive: boolean;
  httpEndPointPort: number;
}

function gossip(port: number): Promise<Member[]> {
  return new Promise((resolve, reject) => {
    const asked = request(
      { host: '127.0.0.1', port, path: '/gossip', rejectUnauthorized: false, timeout: 2_000 },
      (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
        response.on('end', () => {
          try {
            resolve((JSON.parse(text) as { members: Member[] }).members);
          } catch (error) {
            reject(error as Error);
          }
        });
      },
    );
    asked.on('error', reject).on('timeout', () => asked.destroy(new Error('no answer')));
    asked.end();
  });
}
