import { mkdtemp, rm } from 'node:fs/promises';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EventStoreDbEventStore } from '../../src/stores/eventstoredb/eventstoredb-event-store.js';
import { becomes, eventually, recovery } from '../contracts/harness.js';
import { newStream, sampleEvents } from '../contracts/sample-events.js';
import { makeCertificates } from '../servers/certificates.js';
import { describeWithEventStored, type EventStored, startEventStored } from '../servers/eventstored.js';
import { freePort } from '../servers/ports.js';
import { Proxy } from '../servers/proxy.js';

const LONG = 300_000;

describeWithEventStored('three nodes of EventStoreDB with TLS and users', () => {
  let folder: string;
  let authority: string;
  let nodes: EventStored[] = [];
  /** What clients know of the nodes: one in front of each. */
  let proxies: Proxy[] = [];
  let url: string;
  let store: EventStoreDbEventStore | undefined;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'credence-nodes-'));
    const certificates = makeCertificates(folder);
    ({ authority } = certificates);
    const ports: [number, number][] = [];
    for (let n = 0; n < 3; n++) ports.push([await freePort(), await freePort()]);
    proxies = await Promise.all(ports.map(([port]) => Proxy.to(port)));
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
    nodes = await Promise.all(ports.map((each, n) => startEventStored({ onDisk: true, args: of(n), ports: each })));
    const places = proxies.map(({ port }) => `127.0.0.1:${port}`).join(',');
    url = `esdb://admin:changeit@${places}?tls=true&tlsCAFile=${authority}`;
    await eventually(async () => (await leader()) !== undefined, 'a leader').catch(() => undefined);
  }, LONG);
  afterAll(async () => {
    await store?.close();
    await Promise.all(nodes.map((node) => node.stop()));
    await Promise.all(proxies.map((proxy) => proxy.close()));
    await rm(folder, { recursive: true, force: true });
  }, LONG);

  /** The node that the others follow, as one of them tells. */
  async function leader(): Promise<EventStored | undefined> {
    for (const { port } of nodes) {
      const members = await gossip(port).catch(() => []);
      const found = members.find(({ state, isAlive }) => state === 'Leader' && isAlive);
      const n = proxies.findIndex((proxy) => proxy.port === found?.httpEndPointPort);
      if (n >= 0) return nodes[n];
    }
    return undefined;
  }

  const hasNext = (lost: EventStored) => async () => ![undefined, lost].includes(await leader());

  /**
   * Starts the other nodes than `lost` again when they end, as their supervisor would: a node that has more than the
   * next leader ends, and drops that when it is started.
   */
  async function withRestarts(lost: EventStored, work: Promise<void>): Promise<void> {
    const others = nodes.filter((node) => node !== lost);
    const restarts = setInterval(() => {
      for (const node of others) if (node.hasEnded) node.start().catch(() => undefined);
    }, 500);
    await work.finally(() => clearInterval(restarts));
  }

  test(
    'the leader is killed under appends: another takes over, nothing acknowledged is lost, nothing is there twice',
    async () => {
      const said: string[] = [];
      const open = () => EventStoreDbEventStore.open({ url, onWarning: (message) => void said.push(message) });
      await eventually(async () => (store = await open().catch(() => undefined)) !== undefined, 'the store is open');
      const log = store!;
      const start = await log.head();
      const acknowledged: string[] = [];
      let ended = false;
      const writers = Array.from({ length: 8 }, async () => {
        while (!ended) {
          const stream = newStream('leader');
          const events = sampleEvents(stream, 2);
          // Repeated until there is an answer, as clients do.
          for (let done = false; !done && !ended;) {
            done = await log.append(stream, 'no-stream', events).then(
              () => true,
              () => false,
            );
            if (done) acknowledged.push(stream);
          }
        }
      });
      await eventually(() => acknowledged.length > 50, 'appends');
      const lost = (await becomes(leader, (node) => node !== undefined))!;
      await lost.kill();
      const before = acknowledged.length;
      try {
        const next = eventually(() => acknowledged.length > before + 50, 'appends to the next leader');
        await recovery('EventStoreDB lost its leader', withRestarts(lost, next));
      } finally {
        ended = true;
        await Promise.all(writers);
      }
      await withRestarts(lost, eventually(hasNext(lost), 'the next leader, by the gossip of the first node'));
      const streams: string[] = [];
      for await (const slice of log.readAll(start)) {
        streams.push(...slice.filter(({ revision }) => revision === 0).map(({ stream }) => stream));
      }
      expect(streams.filter((stream, n) => streams.indexOf(stream) !== n)).toEqual([]);
      expect(acknowledged.filter((stream) => !streams.includes(stream))).toEqual([]);
      expect(said.filter((line) => line.startsWith('log_replaced'))).toEqual([]);
      expect(said.join()).not.toContain('changeit');
    },
    LONG,
  );

  test(
    'the leader hangs: appends go to the next one long before it answers again',
    async () => {
      for (const node of nodes) if (node.hasEnded) await node.start();
      const stays = async () => (await leader()) !== undefined && nodes.every((node) => !node.hasEnded);
      await eventually(stays, 'three nodes and a leader');
      const log = await EventStoreDbEventStore.open({ url });
      const isAppended = () => {
        const stream = newStream('hanging');
        return log.append(stream, 'no-stream', sampleEvents(stream, 1)).then(
          () => true,
          () => false,
        );
      };
      await eventually(isAppended, 'an append');
      const lost = (await becomes(leader, (node) => node !== undefined))!;
      const proxy = proxies[nodes.indexOf(lost)]!;
      const { accepted } = proxy;
      proxy.mode = 'hanging';
      try {
        const next = eventually(isAppended, 'an append to the next leader');
        await eventually(() => proxy.accepted > accepted, 'a new connection to the leader that hangs');
        // Killed, so that the other nodes agree at once that it is gone. Its clients see it hang.
        await lost.kill();
        await withRestarts(lost, eventually(hasNext(lost), 'the next leader'));
        const elected = performance.now();
        await recovery('EventStoreDB has a leader that hangs', withRestarts(lost, next));
        // A connection attempt that nobody gives up takes a minute.
        expect(performance.now() - elected).toBeLessThan(40_000);
      } finally {
        proxy.mode = 'open';
        await log.close();
      }
    },
    LONG,
  );

  test('a wrong password is refused', async () => {
    await expect(EventStoreDbEventStore.open({ url: url.replace('changeit', 'wrong') })).rejects.toThrow(
      /refuses the credentials/,
    );
  });
});

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
