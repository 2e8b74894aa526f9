import { EventFragment } from 'ethers/abi';
import { type ChainEvent, type Contract, PROTOCOLS } from './chain-events.js';

type Hex = `0x${string}`;

/** Sends a JSON-RPC request to a node. @throws RefusedRange if the node says that the result would be too large */
export type Ask = (method: string, params: unknown[]) => Promise<unknown>;

/** A node refuses a range of blocks because the result would be too large. */
export class RefusedRange extends Error {
  override readonly name = 'RefusedRange';
}

/** A log as nodes return it (the Ethereum JSON-RPC specification). */
interface EvmLog {
  address: Hex;
  topics: Hex[];
  blockHash: Hex;
  blockNumber: Hex;
  logIndex: Hex;
  blockTimestamp?: Hex;
}

/** An event that concerns the wallet. */
export interface Occurrence {
  block_hash: string;
  log_index: number;
  /** ms since the epoch. */
  occurred_at: number;
  metric: string;
  criticality: ChainEvent['criticality'];
}

/** How far a wallet's history has been read. */
export interface Cursor {
  /** First block that was read. */
  since: number;
  next_block: number;
  /** Hash of the block before `next_block`, to detect that a chain replaced final blocks. null at the start. */
  last_hash: string | null;
  /** Tokens `<contract>/<id>` of `token-owner` contracts that the wallet held before `next_block`. */
  tokens: string[];
}

interface Mapping extends ChainEvent {
  addresses: Set<string>;
  attesters: Set<string>;
  topic: Hex;
  /** Number of topics: the event selector and the indexed arguments. */
  topics: number;
}

const FIRST_RANGE = 2_000;
const MAX_RANGE = 100_000;
/** Wanted in a range: the logs of an answer are parsed and sorted in one turn of the event loop. */
const LOGS = 2_000;
/** Token ids in one request. */
const TOKENS = 100;
const ERC721_TRANSFER = 'Transfer(address indexed from, address indexed to, uint256 indexed tokenId)';

/** Reads the logs about one wallet, in ranges as large as the node allows. */
export class Scan {
  private readonly wallet: Hex;
  private readonly topic: Hex;
  private readonly mappings: Mapping[] = [];
  private range = FIRST_RANGE;
  private ceiling = MAX_RANGE;

  constructor(
    private readonly ask: Ask,
    wallet: string,
    contracts: readonly Contract[],
  ) {
    this.wallet = wallet.toLowerCase() as Hex;
    this.topic = `0x${this.wallet.slice(2).padStart(64, '0')}`;
    for (const [protocol, events] of Object.entries(PROTOCOLS)) {
      const listed = contracts.filter((contract) => contract.protocol === protocol);
      if (listed.length === 0) continue;
      const lower = (addresses: readonly string[]) => new Set(addresses.map((address) => address.toLowerCase()));
      const addresses = lower(listed.map(({ address }) => address));
      const attesters = lower(listed.flatMap((contract) => contract.attesters ?? []));
      for (const event of events as readonly ChainEvent[]) {
        this.mappings.push({
          ...event,
          addresses,
          attesters,
          topic: selector(event.event),
          topics: topicsOf(event.event),
        });
      }
    }
  }

  /** The last final block; -1 if there is none. */
  async finalBlock(): Promise<number> {
    const block = (await this.ask('eth_getBlockByNumber', ['finalized', false])) as { number: Hex } | null;
    return block === null ? -1 : Number(block.number);
  }

  /** The hash of a block, or null if it does not exist yet. */
  async hashOf(block: number): Promise<string | null> {
    const found = (await this.ask('eth_getBlockByNumber', [hex(block), false])) as { hash: Hex } | null;
    return found?.hash ?? null;
  }

  /** Reads the next range from the cursor, up to `last` at most. */
  async next(cursor: Cursor, last: number): Promise<{ occurrences: Occurrence[]; logs: number; cursor: Cursor }> {
    for (;;) {
      const from = cursor.next_block;
      const to = Math.min(from + this.range - 1, last);
      try {
        const read = await this.read(cursor, from, to);
        // With as many logs in each block as there were, the next range has that many.
        const enough = Math.ceil(((to - from + 1) * LOGS) / read.logs);
        this.range = Math.min(this.range * 2, this.ceiling, enough);
        this.ceiling = Math.min(Math.ceil(this.ceiling * 1.1), MAX_RANGE); // only a part of the chain may be this dense
        return read;
      } catch (error) {
        if (!(error instanceof RefusedRange) || from === to) throw error;
        this.ceiling = to - from;
        this.range = Math.ceil((to - from) / 2);
      }
    }
  }

  private async read(cursor: Cursor, from: number, to: number) {
    const logs = [...(await this.ofWallet(from, to)), ...(await this.ofContract(from, to))];
    const tokens = new Set(cursor.tokens);
    logs.push(...(await this.ofTokens(logs, tokens, from, to)));
    const different = new Map(logs.map((log) => [`${log.blockHash}/${log.logIndex}`, log]));
    const inOrder = [...different.values()].sort(
      (a, b) => Number(a.blockNumber) - Number(b.blockNumber) || Number(a.logIndex) - Number(b.logIndex),
    );
    const found: { log: EvmLog; mapping: Mapping }[] = [];
    for (const log of inOrder) {
      this.keepAccount(log, tokens);
      const mapping = this.mappingOf(log, tokens);
      if (mapping) found.push({ log, mapping });
    }
    const times = await this.timesOf(found.map(({ log }) => log));
    const last_hash = await this.hashOf(to);
    if (last_hash === null) throw new Error(`block ${to} is not there any more`);
    const occurrences = found.map(({ log, mapping: { metric, criticality } }) => ({
      block_hash: log.blockHash,
      log_index: Number(log.logIndex),
      occurred_at: times.get(log.blockHash)!,
      metric,
      criticality,
    }));
    return {
      occurrences,
      logs: inOrder.length,
      cursor: { since: cursor.since, next_block: to + 1, last_hash, tokens: [...tokens] },
    };
  }

  /** Logs with the wallet as an indexed argument: one request for each position of the argument. */
  private async ofWallet(from: number, to: number): Promise<EvmLog[]> {
    const found: EvmLog[] = [];
    for (const place of [1, 2, 3] as const) {
      const asked = this.mappings.filter(({ wallet }) => wallet === place);
      const topics = asked.map(({ topic }) => topic);
      const addresses = asked.flatMap((mapping) => [...mapping.addresses]);
      const owned = this.mappings.filter(({ wallet }) => wallet === 'token-owner');
      if (owned.length > 0 && place < 3) {
        topics.push(selector(ERC721_TRANSFER)); // tokens sent (1) and received (2)
        addresses.push(...owned.flatMap((mapping) => [...mapping.addresses]));
      }
      if (topics.length === 0) continue;
      const filter = [[...new Set(topics)], ...Array<null>(place - 1).fill(null), this.topic];
      found.push(...(await this.logs([...new Set(addresses)], filter, from, to)));
    }
    return found;
  }

  /** Logs of the wallet itself, if it is a listed contract. */
  private async ofContract(from: number, to: number): Promise<EvmLog[]> {
    const own = this.mappings.filter(({ wallet, addresses }) => wallet === 'contract' && addresses.has(this.wallet));
    if (own.length === 0) return [];
    return this.logs([this.wallet], [own.map(({ topic }) => topic)], from, to);
  }

  /** Logs about tokens that the wallet held at any time in the range. */
  private async ofTokens(
    logs: readonly EvmLog[],
    held: ReadonlySet<string>,
    from: number,
    to: number,
  ): Promise<EvmLog[]> {
    const found: EvmLog[] = [];
    for (const mapping of this.mappings.filter(({ wallet }) => wallet === 'token-owner')) {
      const came = logs.filter((log) => this.isTokenTransfer(log, mapping) && log.topics[2] === this.topic);
      const tokens = new Set([...held, ...came.map(tokenOf)]);
      for (const address of mapping.addresses) {
        const ids = [...tokens].filter((token) => token.startsWith(`${address}/`)).map((token) => token.split('/')[1]!);
        for (let i = 0; i < ids.length; i += TOKENS) {
          const filter = [[mapping.topic], ids.slice(i, i + TOKENS)];
          found.push(...(await this.logs([address], filter, from, to)));
        }
      }
    }
    return found;
  }

  /** Updates the tokens that the wallet holds after a log. */
  private keepAccount(log: EvmLog, tokens: Set<string>): void {
    if (!this.mappings.some((one) => one.wallet === 'token-owner' && this.isTokenTransfer(log, one))) return;
    if (log.topics[1] === this.topic) tokens.delete(tokenOf(log));
    if (log.topics[2] === this.topic) tokens.add(tokenOf(log));
  }

  private isTokenTransfer({ address, topics }: EvmLog, { addresses }: Mapping): boolean {
    return addresses.has(address) && topics[0] === selector(ERC721_TRANSFER);
  }

  private mappingOf(log: EvmLog, tokens: ReadonlySet<string>): Mapping | undefined {
    return this.mappings.find(({ wallet, addresses, attesters, attester, topic, topics }) => {
      if (log.topics[0] !== topic || log.topics.length !== topics || !addresses.has(log.address)) return false;
      if (attester !== undefined && !attesters.has(`0x${log.topics[attester]!.slice(-40)}`)) return false;
      if (wallet === 'contract') return log.address === this.wallet;
      if (wallet === 'token-owner') return tokens.has(`${log.address}/${log.topics[1]}`);
      return log.topics[wallet] === this.topic;
    });
  }

  /** Times of the logs' blocks by hash, ms. */
  private async timesOf(logs: readonly EvmLog[]): Promise<Map<string, number>> {
    const times = new Map<string, number>();
    for (const { blockHash, blockTimestamp } of logs) {
      if (times.has(blockHash)) continue;
      const seconds =
        blockTimestamp ??
        ((await this.ask('eth_getBlockByHash', [blockHash, false])) as { timestamp: Hex } | null)?.timestamp;
      if (seconds === undefined) throw new Error(`block ${blockHash} is not there any more`);
      times.set(blockHash, Number(seconds) * 1_000);
    }
    return times;
  }

  /** @throws RefusedRange for more than one block */
  private async logs(addresses: string[], topics: unknown[], from: number, to: number): Promise<EvmLog[]> {
    const filter = { address: addresses, topics, fromBlock: hex(from), toBlock: hex(to) };
    let logs: EvmLog[];
    try {
      logs = (await this.ask('eth_getLogs', [filter])) as EvmLog[];
    } catch (error) {
      if (!(error instanceof RefusedRange) || from !== to) throw error;
      // A single block has more logs than the node returns. Its receipts contain all of them.
      const receipts = (await this.ask('eth_getBlockReceipts', [hex(from)])) as { logs: EvmLog[] }[];
      logs = receipts.flatMap((receipt) => receipt.logs);
    }
    return logs.map(inLowerCase).filter((log) => fits(log, addresses, topics));
  }
}

function inLowerCase(log: EvmLog): EvmLog {
  const { address, blockHash } = log;
  return {
    ...log,
    address: address.toLowerCase() as Hex,
    blockHash: blockHash.toLowerCase() as Hex,
    topics: log.topics.map((topic) => topic.toLowerCase() as Hex),
  };
}

/** Whether a log matches the filter. Some nodes return more than requested, and a block's receipts contain all logs. */
function fits(log: EvmLog, addresses: readonly string[], topics: readonly unknown[]): boolean {
  if (!addresses.includes(log.address)) return false;
  return topics.every((topic, i) => {
    const actual = log.topics[i];
    return topic === null || (Array.isArray(topic) ? topic.includes(actual) : topic === actual);
  });
}

const tokenOf = ({ address, topics }: EvmLog) => `${address}/${topics[3]}`;
const hex = (block: number): Hex => `0x${block.toString(16)}`;
const topicsOf = (event: string) => 1 + (event.match(/\bindexed\b/g) ?? []).length;

const selectors = new Map<string, Hex>();
function selector(event: string): Hex {
  let known = selectors.get(event);
  if (known === undefined) {
    known = EventFragment.from(event).topicHash as Hex;
    selectors.set(event, known);
  }
  return known;
}
