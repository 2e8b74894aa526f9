import type { ChildProcess } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Body, CredenceClient, type ProblemCode } from '../../clients/typescript/src/client.js';
import { becomes } from '../contracts/harness.js';
import { type Answer, send } from '../http/client.js';
import { Cluster } from '../servers/cluster.js';
import { spawnServer } from '../servers/launch.js';
import { OpenApi } from './openapi.js';

/**
 * The built server as a child process, as an operator runs it. On the cluster profile (`onCluster`) it is an API process
 * and a worker, and all servers of a file are on one EventStoreDB, one PostgreSQL and one Redis, whatever their data
 * folders.
 */

let isCluster = false;
let started: Promise<Cluster> | undefined;
/** Serves all suites of the file that do not say what they need. */
let common: Promise<Server> | undefined;

/** Every server of this file runs on the cluster profile. */
export function onCluster(): void {
  isCluster = true;
}

const cluster = (): Promise<Cluster> => (started ??= Cluster.start());

/** What commands on the store of a data folder are told. */
export async function environmentOf(data: string): Promise<Record<string, string>> {
  return { ...(isCluster ? (await cluster()).env : {}), CREDENCE_DATA: data };
}

/** Loses all read models of a store that nothing runs on. */
export async function loseReadModels(data: string): Promise<void> {
  if (!isCluster) return rm(join(data, 'views'), { recursive: true });
  await (await cluster()).postgres.sql('DROP SCHEMA credence_store CASCADE');
}

const documents = new Map<string, Promise<OpenApi>>();

/** Whatever a test leaves running, also one that failed, is ended with its file. */
const running = new Set<Server>();
let isOver = false;
afterAll(async () => {
  isOver = true;
  for (const server of running) await server.end();
  await (await started)?.stop();
});

export type { Answer };

export interface RequestOptions {
  headers?: Record<string, string | string[]>;
  /** An object is sent as JSON; text and bytes as they are, also as application/json unless headers say otherwise. */
  body?: unknown;
  /** false: without the key. Default: with it. */
  key?: string | false;
}

interface Options {
  data?: string;
  env?: Record<string, string>;
  args?: readonly string[];
}

export class Server {
  readonly output: string[] = [];
  readonly errors: string[] = [];
  readonly exit: Promise<number | null>;
  url = '';
  key = '';
  private readonly agent = new Agent({ keepAlive: true, maxSockets: 64 });
  private readonly clients = new Map<string | null, CredenceClient>();

  private constructor(
    readonly data: string,
    readonly child: ChildProcess,
    /** On the cluster profile: does what the API process does not. */
    private readonly worker: Server | undefined,
    /** What its OpenAPI document depends on: its settings, and the build that serves it. */
    private readonly documented: string,
  ) {
    // Not its `exit`: its last lines may arrive after that.
    this.exit = new Promise((settle) => child.once('close', (code) => settle(code)));
    child.stderr!.setEncoding('utf8').on('data', (text: string) => void this.errors.push(text));
  }

  /** Boots on a data folder (default: a new one) and resolves once it is ready to serve. */
  static async start(options?: Options): Promise<Server> {
    if (!isCluster || options) return Server.startOwn(options);
    return (common ??= Server.startOwn());
  }

  private static async startOwn(options: Options = {}): Promise<Server> {
    const data = options.data ?? (await mkdtemp(join(tmpdir(), 'credence-e2e-')));
    const env = { ...(await environmentOf(data)), ...options.env };
    const worker = isCluster
      ? new Server(data, spawnServer({ ...env, CREDENCE_ROLES: 'worker' }), undefined, '')
      : undefined;
    const child = spawnServer(isCluster ? { ...env, CREDENCE_ROLES: 'api' } : env, undefined, undefined, options.args);
    const server = new Server(data, child, worker, JSON.stringify(options.env ?? {}));
    running.add(server);
    void server.exit.then(() => running.delete(server));
    await server.booted();
    if (options.env?.['CREDENCE_API_KEYS'] === undefined) {
      server.key = isCluster ? (await cluster()).key : await readFile(join(data, 'dev-api-key'), 'utf8');
    }
    await server.ready();
    return server;
  }

  /**
   * Boots one process of a cluster, with a folder as on a machine of its own, and resolves once it is ready.
   * @param build the program of another build of the service
   */
  static async process(env: Record<string, string>, key = '', build?: string): Promise<Server> {
    const data = await mkdtemp(join(tmpdir(), 'credence-process-'));
    const child = spawnServer({ ...env, CREDENCE_DATA: data }, build);
    const server = new Server(data, child, undefined, JSON.stringify([env, build]));
    server.key = key;
    running.add(server);
    void server.exit.then(async () => {
      running.delete(server);
      await rm(data, { recursive: true, force: true });
    });
    await server.booted();
    await server.ready();
    return server;
  }

  /** The published client with the key of the server. */
  get client(): CredenceClient {
    return this.clientWith(this.key);
  }

  /**
   * The published client with another key, or with none. Each key has one, whose reads include its own writes. Its
   * answers must be as the OpenAPI document says, too, and it repeats nothing: no fault is hidden.
   */
  clientWith(key: string | null): CredenceClient {
    const known = this.clients.get(key);
    if (known) return known;
    const client = new CredenceClient({
      baseUrl: this.url,
      ...(key !== null && { apiKey: key }),
      retries: 0,
      fetch: async (request) => {
        const response = await fetch(request);
        const text = await response.clone().text();
        const isJson = /json/.test(response.headers.get('content-type') ?? '');
        const headers = Object.fromEntries(response.headers);
        const answer = { status: response.status, headers, text, json: isJson ? JSON.parse(text) : null };
        const { pathname } = new URL(request.url);
        (await this.document()).expectAnswer(request.method, pathname, answer);
        return response;
      },
    });
    this.clients.set(key, client);
    return client;
  }

  private async booted(): Promise<void> {
    const stdout = this.child.stdout!.setEncoding('utf8');
    await new Promise<void>((settle, fail) => {
      stdout.on('data', (text: string) => {
        this.output.push(text);
        const address = /^Credence (?:serves|is running as a worker; health and metrics:) (http:\/\/\S+)\s/.exec(
          this.output.join(''),
        );
        if (address) this.url = address[1]!;
        if (address) settle();
      });
      this.exit.then((code) => fail(new Error(`the server ended with ${code}: ${this.errors.join('')}`)), fail);
    });
  }

  private async ready(): Promise<void> {
    for (let tries = 0; ; tries++) {
      const { status, text } = await this.send('GET', '/health/ready');
      if (status === 200) return;
      if (tries > 3_000) throw new Error(`the server does not become ready: ${text}`);
      await sleep(20);
    }
  }

  /** A request whose answer must be as the OpenAPI document says. */
  async request(method: string, path: string, options: RequestOptions = {}): Promise<Answer> {
    const answer = await this.send(method, path, options);
    (await this.document()).expectAnswer(method, path, answer);
    return answer;
  }

  /** Servers of a file with the same settings serve the same, which takes each a quarter of a second to make. */
  private document(): Promise<OpenApi> {
    const known = documents.get(this.documented);
    if (known) return known;
    const asked = this.send('GET', '/openapi.json').then(({ json }) => new OpenApi(json));
    documents.set(this.documented, asked);
    // This server may have ended; the next one is asked again.
    asked.catch(() => documents.delete(this.documented));
    return asked;
  }

  get(path: string, options?: RequestOptions): Promise<Answer> {
    return this.request('GET', path, options);
  }

  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer> {
    return this.request('POST', path, { body, headers });
  }

  delete(path: string, options?: RequestOptions): Promise<Answer> {
    return this.request('DELETE', path, options);
  }

  /** Relays an action; what is not given is an unremarkable one. */
  relay(action: Record<string, unknown> = {}, headers?: Record<string, string>): Promise<Answer> {
    return this.post('/api/decision-relay', { ...ACTION, ...action }, headers);
  }

  /** A read of what an earlier write did. On a machine that stands still it is repeated, as 503 tells a client to do. */
  getAfter(write: Answer, path: string): Promise<Answer> {
    const headers = { 'credence-min-position': String(write.headers['credence-position']) };
    return becomes(
      () => this.get(path, { headers }),
      ({ json }) => json?.code !== 'projection_behind',
    );
  }

  /** A request as it stands: nothing in the path or the headers is tidied, and the answer is not judged. */
  send(method: string, path: string, { headers = {}, body, key }: RequestOptions = {}): Promise<Answer> {
    const isText = typeof body === 'string' || Buffer.isBuffer(body);
    const bytes = body === undefined ? undefined : isText ? body : JSON.stringify(body);
    const credential = key ?? this.key;
    const all: Record<string, string | string[]> = {
      ...(key !== false && credential !== '' && { 'x-api-key': credential as string }),
      ...(bytes !== undefined && {
        'content-type': 'application/json',
        'content-length': String(Buffer.byteLength(bytes)),
      }),
      ...headers,
    };
    return send(Number(new URL(this.url).port), method, path, { headers: all, body: bytes, agent: this.agent });
  }

  /** The last position of the log, from the readiness report, which lacks it while a store gives no answer for 2 s. */
  async head(): Promise<number> {
    const position = /at position (\d+)/;
    const { text } = await becomes(
      () => this.send('GET', '/health/ready'),
      (answer) => position.test(answer.text),
    );
    return Number(position.exec(text)![1]);
  }

  /** SIGTERM; resolves with the exit code. */
  async stop(): Promise<number | null> {
    this.child.kill('SIGTERM');
    const [code, workerCode] = await Promise.all([this.exit, this.worker?.stop()]);
    this.agent.destroy();
    return code || (workerCode ?? code);
  }

  /** SIGKILL: no chance to finish anything. */
  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await Promise.all([this.exit, this.worker?.kill()]);
    this.agent.destroy();
  }

  /** Stops it and removes its data. */
  async end(): Promise<void> {
    if (common && (await common) === this && !isOver) return;
    await this.stop();
    await rm(this.data, { recursive: true, force: true });
  }
}

export const ACTION: Body<'post', '/api/decision-relay'> = {
  tris_id: 'tris:somebody',
  action_type: 'loan_repayment',
  category: 'financial',
  criticality: 'High',
  platform_id: 'lender',
};

let serial = 0;
/** An identity, platform or external id that no other test uses. */
export const unique = (prefix = 'tris:id') => `${prefix}-${++serial}`;

export function expectProblem(answer: Answer, status: number, code: string, ...pointers: string[]): void {
  expect({ status: answer.status, code: answer.json?.code, text: answer.text }).toEqual({
    status,
    code,
    text: answer.text,
  });
  expect(answer.headers['content-type']).toBe('application/problem+json');
  if (pointers.length > 0) expect(answer.json.errors.map((error: any) => error.pointer)).toEqual(pointers);
}

/** The same of a call of the client. */
export async function expectRefusal(
  call: Promise<unknown>,
  status: number,
  code: ProblemCode,
  ...pointers: string[]
): Promise<void> {
  const errors = pointers.map((pointer) => expect.objectContaining({ pointer }));
  await expect(call).rejects.toMatchObject({ status, code, ...(pointers.length > 0 && { errors }) });
}
