import { Inject, Injectable } from '@nestjs/common';
import { Config } from '../../kernel/config.js';
import { inTime } from '../../kernel/turn.js';
import { Logger } from '../../kernel/logger.js';
import { Problem } from '../../kernel/problems.js';
import { JsonRpc, type RpcFailure } from './json-rpc.js';

/** How long one question may take across all its requests, ms. */
const DEADLINE_MS = 8_000;

/** The EVM chains an operator has configured (CREDENCE_RPC_<chainId>). */
@Injectable()
export class Chains {
  private readonly clients = new Map<number, Promise<JsonRpc>>();

  constructor(
    @Inject(Config) private readonly config: Config,
    private readonly logger: Logger,
  ) {}

  has(chainId: number): boolean {
    return this.config.rpc.has(String(chainId));
  }

  /**
   * A client that reads a chain. The endpoint's chain id was checked when the client was created: what a contract says
   * on one chain must not count on another.
   * @throws Problem chain_not_configured, chain_unavailable
   */
  async client(chainId: number): Promise<JsonRpc> {
    const url = this.config.rpc.get(String(chainId));
    if (url === undefined) throw notConfigured(chainId);
    let client = this.clients.get(chainId);
    if (!client) {
      client = this.open(chainId, url);
      this.clients.set(chainId, client);
      // The next request tries again.
      client.catch(() => this.clients.delete(chainId));
    }
    return client;
  }

  /** Queries a chain, within the deadline. @throws Problem chain_not_configured, chain_unavailable */
  async ask<T>(chainId: number, question: (client: JsonRpc) => Promise<T>): Promise<T> {
    try {
      return await inTime(this.client(chainId).then(question), DEADLINE_MS);
    } catch (error) {
      if (error instanceof Problem) throw error;
      return this.fail(chainId, error as Error);
    }
  }

  private async open(chainId: number, url: string): Promise<JsonRpc> {
    const client = new JsonRpc(url);
    const actual = await client.request('eth_chainId', []).catch((error: RpcFailure) => this.fail(chainId, error));
    if (typeof actual !== 'string' || Number(actual) !== chainId)
      this.fail(chainId, new Error(`CREDENCE_RPC_${chainId} is an endpoint of chain ${actual}`));
    return client;
  }

  private fail(chainId: number, { message }: Error): never {
    this.logger.error('A chain could not be queried', { chain_id: chainId, detail: message });
    throw new Problem('chain_unavailable', `Chain ${chainId} does not respond. The same request may be repeated.`, {
      headers: { 'retry-after': '5' },
    });
  }
}

export function notConfigured(chainId: number): Problem {
  return new Problem(
    'chain_not_configured',
    `The signature of a contract wallet is verified by its contract, and chain ${chainId} is not configured here.`,
  );
}
