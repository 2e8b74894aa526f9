import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { send } from '../http/client.js';

/** An error of JSON-RPC, or one of HTTP with a text. */
type Refusal = { code: number; message: string } | { status: number; message: string };

/** An endpoint before a node, with the moods of providers. */
export interface Endpoint {
  url: string;
  /** Methods and parameters it was asked, in order. */
  asked: { method: string; params: unknown[] }[];
  /** How it refuses a question; undefined lets it pass, 'die' closes the connection. */
  refuse: (method: string, params: unknown[]) => Refusal | 'die' | undefined;
  close(): Promise<void>;
}

export async function endpointBefore(node: string): Promise<Endpoint> {
  const port = Number(new URL(node).port);
  const endpoint: Endpoint = { url: '', asked: [], refuse: () => undefined, close: async () => undefined };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', async () => {
      const body = Buffer.concat(chunks).toString();
      const { id, method, params = [] } = JSON.parse(body) as { id: number; method: string; params?: unknown[] };
      endpoint.asked.push({ method, params });
      const refusal = endpoint.refuse(method, params);
      if (refusal === 'die') return request.socket.destroy();
      if (refusal && 'status' in refusal) {
        response.statusCode = refusal.status;
        return response.end(refusal.message);
      }
      response.setHeader('content-type', 'application/json');
      if (refusal) return response.end(JSON.stringify({ jsonrpc: '2.0', id, error: refusal }));
      const answer = await send(port, 'POST', '/', { headers: { 'content-type': 'application/json' }, body });
      response.end(answer.text);
    });
  });
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  endpoint.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  endpoint.close = () =>
    new Promise((closed) => {
      server.close(() => closed());
      server.closeAllConnections();
    });
  return endpoint;
}

export function blocksOf(params: unknown[]): number {
  const { fromBlock, toBlock } = params[0] as { fromBlock: string; toBlock: string };
  return Number(toBlock) - Number(fromBlock) + 1;
}
