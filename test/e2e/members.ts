import { randomUUID } from 'node:crypto';
import { Agent } from 'node:http';
import { CredenceClient } from '../../clients/typescript/src/client.js';
import { eventually } from '../contracts/harness.js';
import { type Answer, send } from '../http/client.js';
import { ACTION, type Server } from './server.js';

/** One of the processes that answer on the port of a server, and a connection to it. */
export class Member {
  private ownClient: CredenceClient | undefined;

  constructor(
    private readonly server: Server,
    readonly pid: number,
    private readonly agent: Agent,
  ) {}

  /** The published client on this connection. It waits for writes of another member only if it is told their position. */
  get client(): CredenceClient {
    return (this.ownClient ??= new CredenceClient({
      baseUrl: this.server.url,
      apiKey: this.server.key,
      retries: 0,
      fetch: async (request) => {
        const { pathname, search } = new URL(request.url);
        const headers = Object.fromEntries(request.headers);
        const body = request.body ? Buffer.from(await request.arrayBuffer()) : undefined;
        const address = pathname + search;
        const answer = await send(portOf(this.server), request.method, address, { headers, body, agent: this.agent });
        return new Response(answer.text || null, {
          status: answer.status,
          headers: answer.headers as Record<string, string>,
        });
      },
    }));
  }

  /** Closes the connection. */
  close(): void {
    this.agent.destroy();
  }

  /** @param key false: without the key of the server */
  send(method: string, path: string, body?: object, headers: Record<string, string> = {}, key = true): Promise<Answer> {
    const text = body && JSON.stringify(body);
    const all = {
      ...(key && { 'x-api-key': this.server.key }),
      ...(text !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    };
    return send(portOf(this.server), method, path, { headers: all, body: text, agent: this.agent });
  }

  post(path: string, body: object, headers?: Record<string, string>): Promise<Answer> {
    return this.send('POST', path, body, headers);
  }

  relay(action: object = {}, headers?: Record<string, string>): Promise<Answer> {
    return this.post('/api/decision-relay', { ...ACTION, ...action }, headers);
  }

  /** A read of what a write did, through whichever process. */
  getAfter(write: Answer, path: string): Promise<Answer> {
    return this.send('GET', path, undefined, { 'credence-min-position': String(write.headers['credence-position']) });
  }
}

/** Connections to so many processes of a server, whose log level must be `debug`: it says which one answered. */
export async function membersOf(server: Server, count: number): Promise<Member[]> {
  const members = new Map<number, Member>();
  while (members.size < count) {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const id = randomUUID();
    await send(portOf(server), 'GET', '/health/live', { headers: { 'x-request-id': id }, agent });
    let line: string | undefined;
    await eventually(() => {
      const lines = server.errors.join('').split('\n').slice(0, -1);
      line = lines.find((one) => one.includes(id));
      return line !== undefined;
    }, 'the line about the request');
    const { pid } = JSON.parse(line!) as { pid: number };
    if (members.has(pid)) agent.destroy();
    else members.set(pid, new Member(server, pid, agent));
  }
  return [...members.values()];
}

const portOf = ({ url }: Server): number => Number(new URL(url).port);
