import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../contracts/harness.js';
import { ACTION, Server } from '../e2e/server.js';
import { limit, repeated } from '../faults/faults.js';
import { makeCertificates } from '../servers/certificates.js';
import { Cluster, noCluster } from '../servers/cluster.js';
import { freePort } from '../servers/ports.js';
import { isOnPath } from '../servers/programs.js';

/** deploy/nginx/credence.conf in a real nginx, in front of two API processes that docs/deploy.md restarts in turn. */

// Debian puts it where only root looks for programs.
const NGINX = ['nginx', '/usr/sbin/nginx'].find(isOnPath);
const without = NGINX === undefined ? 'nginx is not on the PATH' : noCluster;
if (without !== undefined) process.stderr.write(`skipped: nginx in front of two API processes: ${without}\n`);

const RESTARTS = repeated(2, 4);
const CLIENTS = 8;
const NAME = 'credence.example.org';

interface Answer {
  status: number;
  text: string;
  headers: Record<string, string | string[] | undefined>;
}

(without === undefined ? describe : describe.skip)('nginx in front of two API processes', () => {
  const folder = mkdtempSync(join(tmpdir(), 'credence-nginx-'));
  let cluster: Cluster;
  let nginx: ChildProcess;
  let tls: ReturnType<typeof makeCertificates>;
  let authority: Buffer;
  let port: number;
  let ports: number[];
  const servers: Server[] = [];
  // The certificate is one for 127.0.0.1. A worker that ends closes connections on which a client may just send again.
  const agent = new Agent({ keepAlive: false, checkServerIdentity: () => undefined });

  /** As an operator edits it: places and ports, and which server gets no new requests. */
  function configure(down?: number): void {
    const site = readFileSync('deploy/nginx/credence.conf', 'utf8')
      .replace('127.0.0.1:3001', `127.0.0.1:${ports[0]}${down === 0 ? ' down' : ''}`)
      .replace('127.0.0.1:3002', `127.0.0.1:${ports[1]}${down === 1 ? ' down' : ''}`)
      .replace('listen 443', `listen 127.0.0.1:${port}`)
      .replace('listen 80;', `listen 127.0.0.1:${ports[2]};`)
      .replace('/etc/nginx/credence.crt', tls.node)
      .replace('/etc/nginx/credence.key', tls.key);
    writeFileSync(join(folder, 'site.conf'), site);
  }
  /** Resolves when the worker of nginx that knows the configuration before has ended. */
  async function reload(): Promise<void> {
    const ended = () => log().split('exited with code 0').length;
    const before = ended();
    nginx.kill('SIGHUP');
    await eventually(() => ended() > before, 'the worker with the configuration before has ended');
  }
  const log = () => readFileSync(join(folder, 'error.log'), 'utf8');

  const start = (n: number) => Server.process({ ...cluster.env, ...API, CREDENCE_PORT: String(ports[n]) }, cluster.key);
  const API = { CREDENCE_ROLES: 'api', CREDENCE_TRUST_PROXY: 'on', CREDENCE_RATE_LIMIT: '100000' };

  function send(method: string, path: string, headers: Record<string, string> = {}, body = ''): Promise<Answer> {
    const options = { agent, host: '127.0.0.1', port, method, path, ca: authority };
    return new Promise((resolve, reject) => {
      const outgoing = request({ ...options, headers: { host: NAME, ...headers } }, (incoming) => {
        let text = '';
        incoming.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
        incoming.once('end', () => resolve({ status: incoming.statusCode!, text, headers: incoming.headers }));
        incoming.once('error', reject);
      });
      outgoing.once('error', reject);
      outgoing.end(body);
    });
  }

  beforeAll(async () => {
    tls = makeCertificates(folder);
    authority = readFileSync(tls.authority);
    port = await freePort();
    ports = [await freePort(), await freePort(), await freePort()];
    cluster = await Cluster.start();
    servers.push(await Server.process({ ...cluster.env, CREDENCE_ROLES: 'worker' }, cluster.key));
    configure();
    mkdirSync(join(folder, 'temporary'));
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (name) => `${name}_temp_path ${folder}/temporary/${name};`,
    );
    writeFileSync(
      join(folder, 'nginx.conf'),
      `daemon off; pid ${folder}/nginx.pid; error_log ${folder}/error.log notice; worker_processes 1;
      events { worker_connections 1024; }
      http { access_log off; ${temporary.join(' ')} include ${folder}/site.conf; }`,
    );
    const args = ['-p', folder, '-c', join(folder, 'nginx.conf'), '-e', join(folder, 'error.log')];
    servers.push(await start(0), await start(1));
    nginx = spawn(NGINX!, args, { stdio: ['ignore', 'ignore', 'inherit'] });
    // Connections are refused until it listens.
    const isUp = async () => (await send('GET', '/health/live').catch(() => undefined))?.status === 200;
    await eventually(isUp, 'nginx answers');
  }, 240_000);
  afterAll(async () => {
    agent.destroy();
    if (nginx?.kill('SIGTERM')) await once(nginx, 'close');
    await Promise.all(servers.map((server) => server.stop()));
    await cluster?.stop();
    rmSync(folder, { recursive: true, force: true });
  }, 240_000);

  const headers = () => ({ 'x-api-key': cluster.key, 'content-type': 'application/json' });

  test('answers over TLS, keeps the metrics to itself, and tells the service who the client is', async () => {
    const relayed = await send('POST', '/api/decision-relay', headers(), JSON.stringify(ACTION));
    expect([relayed.status, relayed.headers['strict-transport-security']]).toEqual([202, 'max-age=31536000']);
    expect((await send('GET', '/metrics', headers())).status).toBe(404);
    // Counted as one client, whatever a client claims about itself.
    const remaining = async (claimed: string) => {
      const { headers: told } = await send('GET', '/v1/disc/score/tris:nobody', { 'x-forwarded-for': claimed });
      return Number(told['ratelimit-remaining']);
    };
    const first = await remaining('203.0.113.7');
    expect(await remaining('203.0.113.8')).toBe(first - 1);
    const plain = await fetch(`http://127.0.0.1:${ports[2]}/v1/x?y=1`, { redirect: 'manual', headers: { host: NAME } });
    expect([plain.status, plain.headers.get('location')]).toEqual([
      308,
      expect.stringMatching(/^https:.*\/v1\/x\?y=1$/),
    ]);
  });

  test('passes on an event of a stream as soon as it comes', async () => {
    const options = {
      agent,
      host: '127.0.0.1',
      port,
      path: '/v1/disc/changes/stream',
      ca: authority,
    };
    const outgoing = request({ ...options, headers: { host: NAME, ...headers() } }).end();
    const [incoming] = await once(outgoing, 'response');
    let text = '';
    incoming.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
    await eventually(() => text.includes('event: heartbeat'), 'the first event');
    await send('POST', '/api/decision-relay', headers(), JSON.stringify({ ...ACTION, tris_id: 'tris:streamed' }));
    await eventually(() => text.includes('tris:streamed'), 'the change');
    outgoing.destroy();
  });

  test(
    `no request fails while the two processes are restarted ${RESTARTS} times`,
    async () => {
      let isOver = false;
      const failed: string[] = [];
      let acknowledged = 0;
      let reads = 0;
      const client = async (n: number) => {
        for (let i = 0; !isOver; i++) {
          const tris_id = `tris:restart-${n}`;
          const body = JSON.stringify({ ...ACTION, tris_id, external_id: `restart-${n}-${i}` });
          const relayed = await send('POST', '/api/decision-relay', headers(), body).catch(String);
          if (typeof relayed !== 'string' && relayed.status === 202) acknowledged++;
          else failed.push(JSON.stringify(relayed));
          const read = await send('GET', '/v1/disc/score/tris:restart-0', headers()).catch(String);
          if (typeof read === 'string' || ![200, 404].includes(read.status)) failed.push(JSON.stringify(read));
          reads++;
        }
      };
      const clients = Array.from({ length: CLIENTS }, (_, n) => client(n));
      try {
        for (let i = 0; i < RESTARTS; i++) {
          const n = i % 2;
          configure(n);
          await reload();
          await servers[1 + n]!.stop();
          servers[1 + n] = await start(n);
          configure();
          await reload();
          const before = acknowledged;
          await eventually(() => acknowledged > before + 20, 'relays through both');
        }
      } finally {
        isOver = true;
        await Promise.all(clients);
      }
      expect(failed).toEqual([]);
      expect(reads).toBeGreaterThan(0);
    },
    limit(1_200_000),
  );
});
