import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { JsonRpc } from '../../src/features/accounts/json-rpc.js';
import { send } from '../http/client.js';

/** An error of JSON-RPC, or one of HTTP with a text. */
export type Refusal = { code: number; message: string } | { status: number; message: string };
type Call = { id: number; method: string; params?: unknown[] };

/** An endpoint before a node, with the moods of providers. */
export interface Endpoint {
  url: string;
  /** Methods and parameters it was asked, in order. */
  asked: { method: string; params: unknown[] }[];
  /** How it refuses a question; undefined lets it pass, 'die' closes the connection. */
  refuse: (method: string, params: unknown[]) => Refusal | 'die' | undefined;
  /** How it changes a result. */
  change: (result: any, method: string, params: unknown[]) => unknown;
  /** How it refuses every batch; undefined lets them pass. */
  refuseBatches: Refusal | undefined;
  close(): Promise<void>;
}

export async function endpointBefore(node: string): Promise<Endpoint> {
  const port = Number(new URL(node).port);
  const endpoint: Endpoint = {
    url: '',
    asked: [],
    refuse: () => undefined,
    change: (result) => result,
    refuseBatches: undefined,
    close: async () => undefined,
  };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    const end = ({ status, json }: { status: number; json: unknown }) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(typeof json === 'string' ? json : JSON.stringify(json));
    };
    /** The answer to one call, or one of HTTP with a text. */
    const answerTo = async ({ id, method, params = [] }: Call): Promise<{ status: number; json: unknown }> => {
      endpoint.asked.push({ method, params });
      const refusal = endpoint.refuse(method, params);
      if (refusal === 'die') throw new Error('die');
      if (refusal && 'status' in refusal) return { status: refusal.status, json: refusal.message };
      if (refusal) return { status: 200, json: { jsonrpc: '2.0', id, error: refusal } };
      const body = JSON.stringify({ jsonrpc: '2.0', id, method, params });
      const { json } = await send(port, 'POST', '/', { headers: { 'content-type': 'application/json' }, body });
      if ('result' in json) json.result = endpoint.change(json.result, method, params);
      return { status: 200, json };
    };
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', async () => {
      const calls = JSON.parse(Buffer.concat(chunks).toString()) as Call | Call[];
      const { refuseBatches } = endpoint;
      if (Array.isArray(calls) && refuseBatches) {
        if ('status' in refuseBatches) return end({ status: refuseBatches.status, json: refuseBatches.message });
        return end({ status: 200, json: { jsonrpc: '2.0', id: null, error: refuseBatches } });
      }
      try {
        if (!Array.isArray(calls)) return end(await answerTo(calls));
        const answers = await Promise.all(calls.map(answerTo));
        // Responses of a batch may come in any order.
        end(
          answers.find(({ status }) => status !== 200) ?? {
            status: 200,
            json: answers.map(({ json }) => json).reverse(),
          },
        );
      } catch {
        request.socket.destroy();
      }
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

/** Batches of a node that answers single requests by `request`. */
export function batchesBy(request: JsonRpc['request']): JsonRpc['batch'] {
  return (requests) =>
    Promise.all(requests.map(({ method, params }) => request(method, params).catch((error: unknown) => error)));
}
