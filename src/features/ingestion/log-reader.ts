import { setTimeout as sleep } from 'node:timers/promises';
import { type JsonRpc, NoBatches, RpcFailure, type RpcRequest } from '../accounts/json-rpc.js';
import { isObject } from '../../kernel/json.js';
import { refusalKind } from './refusals.js';

export type Hex = `0x${string}`;

/** A log as nodes return it (the Ethereum JSON-RPC specification), in lower case. */
export interface EvmLog {
  address: Hex;
  topics: Hex[];
  /** Its data, if they are one word. */
  word: Hex | undefined;
  blockHash: Hex;
  blockNumber: Hex;
  logIndex: Hex;
  blockTimestamp?: unknown;
}

/** A node refuses a range of blocks because the result would be too large. */
export class RefusedRange extends Error {
  override readonly name = 'RefusedRange';
}

/** How often a range is asked for again, if the node that answered does not have its last block. */
const TRIES = 8;
const WAIT_MS = 250;

/**
 * Reads final blocks and their logs from the endpoint of a chain, and checks every answer: behind one address there may
 * be several nodes, some of which lag behind, and what is recorded once is not read again.
 */
export class LogReader {
  /** Whether the endpoint answers batches, as far as is known. */
  answersBatches = true;

  /** @param waitMs before a range is asked for again; longer each time */
  constructor(
    readonly node: Pick<JsonRpc, 'request' | 'batch'>,
    readonly waitMs = WAIT_MS,
  ) {}

  /** The last final block. @throws Error if the node knows none */
  async finalBlock(): Promise<number> {
    const block = await this.node.request('eth_getBlockByNumber', ['finalized', false]).catch((error: RpcFailure) => {
      if (error.reason !== 'refused' || refusalKind(error) === 'rate') throw error;
      throw new Error(`the node does not know the block tag "finalized": ${error.message}`);
    });
    if (block === null) throw new Error('the node has no block with the tag "finalized"');
    return blockOf(block).number;
  }

  /** The hash of a block, or null if the node does not have it. */
  async hashOf(number: number): Promise<Hex | null> {
    const block = await this.node.request('eth_getBlockByNumber', [hex(number), false]);
    return block === null ? null : blockOf(block, number).hash;
  }

  range(from: number, to: number): BlockRange {
    return new BlockRange(this, from, to);
  }

  /** Times of the logs' blocks by hash, ms since the epoch. */
  async timesOf(logs: readonly EvmLog[]): Promise<Map<string, number>> {
    const times = new Map<string, number>();
    for (const { blockHash, blockTimestamp } of logs) {
      if (times.has(blockHash)) continue;
      times.set(blockHash, (timeOf(blockTimestamp) ?? (await this.timeOfBlock(blockHash))) * 1_000);
    }
    return times;
  }

  private async timeOfBlock(hash: Hex): Promise<number> {
    const block = await this.node.request('eth_getBlockByHash', [hash, false]);
    if (block === null) throw new Error(`block ${hash} is not there any more`);
    const time = isObject(block) ? timeOf(block['timestamp']) : undefined;
    if (time === undefined) throw new Error(`the node gives no time for block ${hash}`);
    return time;
  }
}

/** Blocks that are read together. All answers are from nodes that have the last of them, with one hash. */
export class BlockRange {
  private hash: Hex | undefined;

  constructor(
    private readonly reader: LogReader,
    readonly from: number,
    readonly to: number,
  ) {}

  /** The hash of the last block. @throws Error if no node that answers has it */
  async lastHash(): Promise<Hex> {
    return (this.hash ??= await this.untilFound(() => this.reader.hashOf(this.to)));
  }

  /**
   * The logs of these contracts with these topics.
   * @param topics for each place the topics of which a log has one; null: any
   * @throws RefusedRange for more than one block
   */
  async logs(addresses: readonly string[], topics: readonly unknown[]): Promise<EvmLog[]> {
    const { from, to } = this;
    const filter = { address: addresses, topics };
    const ask = async (request: RpcRequest) => {
      const logs = await this.untilFound(() => this.askOnce(request, filter));
      return logs.filter((log) => fits(log, addresses, topics));
    };
    try {
      return await ask({ method: 'eth_getLogs', params: [{ ...filter, fromBlock: hex(from), toBlock: hex(to) }] });
    } catch (error) {
      if (!(error instanceof RpcFailure) || refusalKind(error) !== 'range') throw error;
      if (from !== to) throw new RefusedRange(error.message);
      // A single block has more logs than the node returns. Its receipts contain all of them.
      return ask({ method: 'eth_getBlockReceipts', params: [hex(from)] });
    }
  }

  /** Asks until the node that answers has the last block. */
  private async untilFound<T>(ask: () => Promise<T | null | undefined>): Promise<T> {
    for (let tries = 1; ; tries++) {
      const found = await ask();
      if (found !== null && found !== undefined) return found;
      if (tries === TRIES) throw new Error(`the node that answers does not have block ${this.to}`);
      await sleep(this.reader.waitMs * tries);
    }
  }

  /** @returns undefined if the node that answered lacks the last block, or has another one */
  private async askOnce(request: RpcRequest, filter: object): Promise<EvmLog[] | undefined> {
    if (!this.reader.answersBatches) return this.askWithoutBatch(request, filter);
    const last = { method: 'eth_getBlockByNumber', params: [hex(this.to), false] };
    const answers = await this.reader.node.batch([request, last]).catch((error: unknown) => {
      if (!(error instanceof NoBatches)) throw error;
    });
    if (!answers) {
      const logs = await this.askWithoutBatch(request, filter);
      this.reader.answersBatches = false;
      return logs;
    }
    const [found, block] = answers;
    // A node may also refuse a range that ends after its last block.
    if (block === null) return undefined;
    for (const answer of [found, block]) if (answer instanceof RpcFailure) throw answer;
    return this.checked(request, found, blockOf(block, this.to).hash);
  }

  /**
   * Nothing shows which node has answered: it is believed if the logs of the last block by its hash are in the range,
   * and if a second reading has no more logs.
   */
  private async askWithoutBatch(request: RpcRequest, filter: object): Promise<EvmLog[] | undefined> {
    const { node } = this.reader;
    const hash = await this.reader.hashOf(this.to);
    if (hash === null) return undefined;
    const logs = this.checked(request, await node.request(request.method, request.params), hash);
    if (!logs || request.method !== 'eth_getLogs') return logs;
    const byHash = await node.request('eth_getLogs', [{ ...filter, blockHash: hash }]).catch((error: unknown) => {
      if (error instanceof RpcFailure && refusalKind(error) === 'range') return undefined;
      throw error;
    });
    const ofLast = byHash === undefined ? undefined : this.checked(request, byHash, hash);
    const again = this.checked(request, await node.request(request.method, request.params), hash);
    const keys = new Set(logs.map(keyOf));
    const has = (others: EvmLog[] | undefined) => others?.every((log) => keys.has(keyOf(log)));
    return has(ofLast) && has(again) ? logs : undefined;
  }

  /** @returns undefined if the answer is of another chain of blocks, or does not have the block */
  private checked({ method }: RpcRequest, found: unknown, hash: Hex): EvmLog[] | undefined {
    this.hash ??= hash;
    if (this.hash !== hash) return undefined;
    // null is "none" for logs, and "not here" for the receipts of a block.
    if (found === null) return method === 'eth_getLogs' ? [] : undefined;
    const logs = logsOf(found);
    const final = logs.filter(({ blockNumber: number }) => Number(number) >= this.from && Number(number) <= this.to);
    const isOther = (log: EvmLog) => Number(log.blockNumber) === this.to && log.blockHash !== hash;
    return final.some(isOther) ? undefined : final;
  }
}

export const keyOf = ({ blockHash, logIndex }: EvmLog): string => `${blockHash}/${Number(logIndex)}`;

/**
 * The logs in an answer to `eth_getLogs` or `eth_getBlockReceipts`, without those of blocks that were replaced or are
 * not there yet.
 * @throws Error if the answer is neither
 */
function logsOf(found: unknown): EvmLog[] {
  if (!Array.isArray(found)) throw new Error(`the node answered with ${shortened(found)} instead of a list of logs`);
  const logs: EvmLog[] = [];
  for (const one of found as unknown[]) {
    // A receipt contains its logs.
    if (isObject(one) && Array.isArray(one['logs'])) logs.push(...logsOf(one['logs']));
    else if (!isObject(one) || (one['removed'] !== true && one['blockHash'] !== null)) logs.push(logOf(one));
  }
  return logs;
}

function logOf(value: unknown): EvmLog {
  const { address, topics, data, blockHash, blockNumber, logIndex, blockTimestamp } = isObject(value) ? value : {};
  const isLog =
    isText(address, ADDRESS) &&
    Array.isArray(topics) &&
    topics.every((topic) => isText(topic, HASH)) &&
    isText(blockHash, HASH) &&
    isText(blockNumber, QUANTITY) &&
    isText(logIndex, QUANTITY);
  if (!isLog) throw new Error(`the node answered with ${shortened(value)} instead of a log`);
  return {
    address: lower(address),
    topics: (topics as string[]).map(lower),
    word: isText(data, HASH) ? lower(data) : undefined,
    blockHash: lower(blockHash),
    blockNumber: lower(blockNumber),
    logIndex: lower(logIndex),
    blockTimestamp,
  };
}

/** @throws Error if the answer is not that block */
function blockOf(block: unknown, number?: number): { number: number; hash: Hex } {
  const { number: own, hash } = isObject(block) ? block : {};
  const isBlock = isText(own, QUANTITY) && isText(hash, HASH) && (number === undefined || Number(own) === number);
  if (!isBlock)
    throw new Error(`the node answered with ${shortened(block)} instead of block ${number ?? '"finalized"'}`);
  return { number: Number(own), hash: lower(hash) };
}

/** Seconds since the epoch; undefined for what some nodes give where they do not know it. */
const timeOf = (value: unknown): number | undefined =>
  isText(value, QUANTITY) && Number(value) > 0 ? Number(value) : undefined;

/** Whether a log matches the filter. Some nodes return more than requested, and a block's receipts contain all logs. */
function fits(log: EvmLog, addresses: readonly string[], topics: readonly unknown[]): boolean {
  if (!addresses.includes(log.address)) return false;
  return topics.every((topic, i) => {
    const actual = log.topics[i];
    return topic === null || (Array.isArray(topic) ? topic.includes(actual) : topic === actual);
  });
}

const ADDRESS = /^0x[0-9a-f]{40}$/i;
const HASH = /^0x[0-9a-f]{64}$/i;
const QUANTITY = /^0x[0-9a-f]{1,13}$/i;
const isText = (value: unknown, form: RegExp): value is string => typeof value === 'string' && form.test(value);
const lower = (text: string): Hex => text.toLowerCase() as Hex;
const hex = (block: number): Hex => `0x${block.toString(16)}`;
const shortened = (value: unknown): string => (JSON.stringify(value) ?? 'nothing').slice(0, 100);
