import { type Agent, request } from 'node:http';
import { connect } from 'node:net';

export interface Answer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
  json: any;
}

/** A request as it stands: unlike fetch, nothing in the path or the headers is tidied. The agent's connections are used again. */
export function send(
  port: number,
  method: string,
  path: string,
  {
    headers = {},
    body,
    agent,
  }: { headers?: Record<string, string | string[]>; body?: string | Buffer; agent?: Agent } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const outgoing = request({ port, host: '127.0.0.1', method, path, headers, agent }, (incoming) => {
      const chunks: Buffer[] = [];
      incoming.on('error', reject);
      const answered = () => {
        const text = Buffer.concat(chunks).toString('utf8');
        const isJson = /[/+]json/.test(incoming.headers['content-type'] ?? '') && text !== '';
        resolve({
          status: incoming.statusCode!,
          headers: incoming.headers,
          text,
          json: isJson ? JSON.parse(text) : null,
        });
      };
      // A stream of events has no end: what comes first is the answer.
      const isStream = incoming.headers['content-type']?.startsWith('text/event-stream');
      incoming.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        if (!isStream) return;
        answered();
        outgoing.destroy();
      });
      incoming.on('end', answered);
    });
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

/** Writes bytes to a socket and returns everything that comes back until the server closes it. */
export function sendRaw(port: number, bytes: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
    let text = '';
    socket.on('data', (chunk) => (text += chunk.toString('latin1')));
    socket.on('error', (error: NodeJS.ErrnoException) => (error.code === 'ECONNRESET' ? resolve(text) : reject(error)));
    socket.on('close', () => resolve(text));
  });
}
