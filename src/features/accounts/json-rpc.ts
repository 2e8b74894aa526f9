import { isObject } from '../../kernel/json.js';

/** How long a node may take to answer one request, ms. */
const TIMEOUT_MS = 5_000;
/** Largest answer that is read, bytes. The receipts of the fullest blocks take a few megabytes. */
const MAX_BYTES = 16 * 1024 * 1024;
const MAX_MESSAGE = 300;

/** The request failed, or the node refused it. The message does not contain the node's URL, which may be a secret. */
export class RpcFailure extends Error {
  override readonly name = 'RpcFailure';

  /**
   * @param reason `refused`: the node answered with a JSON-RPC error. `timeout`, `size`: it took too long, or its answer
   * was too large. `failed`: anything else
   * @param code of the JSON-RPC error
   * @param status of the HTTP response
   */
  constructor(
    readonly reason: 'refused' | 'timeout' | 'size' | 'failed',
    message: string,
    readonly code?: number,
    readonly status?: number,
  ) {
    super(message.slice(0, MAX_MESSAGE));
  }
}

export interface RpcRequest {
  method: string;
  params: readonly unknown[];
}

/** The endpoint answers no batches. Each request may be sent by itself. */
export class NoBatches extends Error {
  override readonly name = 'NoBatches';
}

/** Sends requests to one node of an EVM chain: JSON-RPC 2.0 over HTTP, without redirects. */
export class JsonRpc {
  private readonly url: string;
  private readonly headers: Record<string, string> = { 'content-type': 'application/json', accept: 'application/json' };

  /** @param address URL of the node. A user name and a password in it are sent as HTTP Basic authentication. */
  constructor(address: string) {
    const url = new URL(address);
    if (url.username !== '') {
      const credentials = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
      this.headers['authorization'] = `Basic ${Buffer.from(credentials).toString('base64')}`;
      url.username = '';
      url.password = '';
    }
    this.url = url.href;
  }

  /** @returns the result as the node sent it, unchecked @throws RpcFailure */
  async request(method: string, params: readonly unknown[]): Promise<unknown> {
    const { answer, status } = await this.post({ jsonrpc: '2.0', id: 1, method, params });
    return resultOf(answer, status);
  }

  /**
   * Sends requests as one batch: behind a balancer, one node answers all of them.
   * @returns for each request its result, unchecked, or why the node refused it
   * @throws RpcFailure for the batch as a whole; NoBatches
   */
  async batch(requests: readonly RpcRequest[]): Promise<unknown[]> {
    const { answer, status } = await this.post(requests.map((request, id) => ({ jsonrpc: '2.0', id, ...request })));
    if (!Array.isArray(answer)) {
      if (!isBatchRefusal(answer, status)) resultOf(answer, status);
      throw new NoBatches();
    }
    // Some refuse each request of a batch with a message about batches.
    if (answer.some((one) => isObject(one) && isObject(one['error']) && isAboutBatches(one['error'])))
      throw new NoBatches();
    return requests.map((_, id) => {
      try {
        const own: unknown = answer.find((one) => isObject(one) && one['id'] === id);
        return resultOf(own, status);
      } catch (error) {
        return error;
      }
    });
  }

  /** @returns the JSON of the answer; undefined if it is none @throws RpcFailure without an answer */
  private async post(body: unknown): Promise<{ answer: unknown; status: number }> {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    try {
      const response = await fetch(this.url, {
        method: 'POST',
        headers: this.headers,
        body: JSON.stringify(body),
        signal,
        redirect: 'error',
      });
      return { status: response.status, answer: parse(await read(response)) };
    } catch (error) {
      if (error instanceof RpcFailure) throw error;
      if (signal.aborted) throw new RpcFailure('timeout', `no answer within ${TIMEOUT_MS} ms`);
      throw new RpcFailure('failed', `no answer: ${causeOf(error as Error)}`);
    }
  }
}

async function read({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body ?? []) {
    size += chunk.length;
    // Leaving the loop closes the connection.
    if (size > MAX_BYTES) throw new RpcFailure('size', `the answer is larger than ${MAX_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function resultOf(answer: unknown, status: number): unknown {
  const { result, error } = isObject(answer) ? answer : {};
  if (error !== undefined && error !== null) {
    const { code, message } = error as { code?: unknown; message?: unknown };
    const reason = typeof message === 'string' ? message : 'without a message';
    throw new RpcFailure('refused', reason, typeof code === 'number' ? code : undefined, status);
  }
  if (status !== 200) throw new RpcFailure('failed', `HTTP status ${status}`, undefined, status);
  if (result === undefined) throw new RpcFailure('failed', 'the answer is not valid JSON-RPC', undefined, status);
  return result;
}

/** Parse error, invalid request, no such method; or a status of servers that expect an object. */
function isBatchRefusal(answer: unknown, status: number): boolean {
  const error = isObject(answer) ? answer['error'] : undefined;
  if (!isObject(error)) return [400, 405, 415, 422].includes(status);
  return [-32700, -32600, -32601].includes(error['code'] as number) || isAboutBatches(error);
}

const isAboutBatches = ({ message }: Record<string, unknown>): boolean => /\bbatch/i.test(String(message));

/** The parser is iterative, so nesting cannot exhaust the stack. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function causeOf({ message, cause }: Error): string {
  const { code, message: reason } = (cause ?? {}) as { code?: string; message?: string };
  return code ?? reason ?? message;
}
