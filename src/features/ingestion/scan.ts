import { EventFragment } from 'ethers/abi';
import { type ChainEvent, type Contract, PROTOCOLS } from './chain-events.js';
import { type BlockRange, type EvmLog, type Hex, type LogReader, RefusedRange, keyOf } from './log-reader.js';

/** Where a log is on its chain: `<block hash>:<log index>`. */
type Place = string;

/** An event that concerns the wallet. */
export interface Occurrence {
  place: Place;
  /** ms since the epoch. */
  occurred_at: number;
  metric: string;
  criticality: ChainEvent['criticality'];
}

/** The revocation of an attestation that was an occurrence. */
export interface Revocation {
  place: Place;
  attested: Place;
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
  /** The attestations about the wallet that are not revoked: where each was made. */
  attestations: Record<string, Place>;
}

interface Mapping extends ChainEvent {
  addresses: Set<string>;
  listed: readonly Listed[];
  topic: Hex;
  /** Number of topics: the event selector and the indexed arguments. */
  topics: number;
}

/** A contract in lower case. */
interface Listed {
  address: string;
  attesters: Set<string> | undefined;
  schemas: Set<string> | undefined;
}

const FIRST_RANGE = 2_000;
const MAX_RANGE = 100_000;
/** Wanted in a range: the logs of an answer are parsed and sorted in one turn of the event loop. */
const LOGS = 2_000;
/** Token ids in one request. */
const TOKENS = 100;
const ERC721_TRANSFER = selector('Transfer(address indexed from, address indexed to, uint256 indexed tokenId)');

/** Reads the logs about one wallet, in ranges as large as the node allows. */
export class Scan {
  private readonly wallet: Hex;
  private readonly topic: Hex;
  private readonly mappings: Mapping[];
  private range = FIRST_RANGE;
  private ceiling = MAX_RANGE;

  constructor(
    private readonly reader: LogReader,
    wallet: string,
    contracts: readonly Contract[],
  ) {
    this.wallet = wallet.toLowerCase() as Hex;
    this.topic = `0x${this.wallet.slice(2).padStart(64, '0')}`;
    this.mappings = Object.entries<Record<string, ChainEvent>>(PROTOCOLS).flatMap(([protocol, events]) => {
      const listed = contracts.filter((contract) => contract.protocol === protocol).map(inLowerCase);
      if (listed.length === 0) return [];
      const addresses = new Set(listed.map(({ address }) => address));
      return Object.entries(events).map(([declared, event]) => {
        return { ...event, addresses, listed, topic: selector(declared), topics: topicsOf(declared) };
      });
    });
  }

  /**
   * Reads the next range from the cursor, up to `last` at most.
   * @returns what it has of the wallet; its revocations are of attestations in this range and before it
   */
  async next(cursor: Cursor, last: number) {
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
    const range = this.reader.range(from, to);
    const logs = [...(await this.ofWallet(range)), ...(await this.ofContract(range))];
    const tokens = new Set(cursor.tokens);
    logs.push(...(await this.ofTokens(logs, tokens, range)));
    const different = new Map(logs.map((log) => [keyOf(log), log]));
    const inOrder = [...different.values()].sort(
      (a, b) => Number(a.blockNumber) - Number(b.blockNumber) || Number(a.logIndex) - Number(b.logIndex),
    );
    const found: { log: EvmLog; mapping: Mapping }[] = [];
    const attestations = { ...cursor.attestations };
    const revocations: Revocation[] = [];
    for (const log of inOrder) {
      this.keepAccount(log, tokens);
      const mapping = this.mappingOf(log, tokens);
      if (mapping && mapping.attestation !== 'revoked') found.push({ log, mapping });
      if (!mapping?.attestation || log.word === undefined) continue;
      const [name, place] = [attestationOf(log), placeOf(log)];
      const attested = attestations[name];
      if (mapping.attestation === 'made') attestations[name] = place;
      else if (attested !== undefined) {
        revocations.push({ place, attested });
        delete attestations[name];
      }
    }
    const times = await this.reader.timesOf(found.map(({ log }) => log));
    const last_hash = await range.lastHash();
    const occurrences = found.map(({ log, mapping: { metric, criticality } }) => ({
      place: placeOf(log),
      occurred_at: times.get(log.blockHash)!,
      metric,
      criticality,
    }));
    return {
      occurrences,
      revocations,
      logs: inOrder.length,
      cursor: { since: cursor.since, next_block: to + 1, last_hash, tokens: [...tokens], attestations },
    };
  }

  /** Logs with the wallet as an indexed argument: one request for each position of the argument. */
  private async ofWallet(range: BlockRange): Promise<EvmLog[]> {
    const found: EvmLog[] = [];
    for (const place of [1, 2, 3] as const) {
      const asked = this.mappings.filter(({ wallet }) => wallet === place);
      const topics = asked.map(({ topic }) => topic);
      const addresses = asked.flatMap((mapping) => [...mapping.addresses]);
      const owned = this.mappings.filter(({ wallet }) => wallet === 'token-owner');
      if (owned.length > 0 && place < 3) {
        topics.push(ERC721_TRANSFER); // tokens sent (1) and received (2)
        addresses.push(...owned.flatMap((mapping) => [...mapping.addresses]));
      }
      if (topics.length === 0) continue;
      const filter = [[...new Set(topics)], ...Array<null>(place - 1).fill(null), this.topic];
      found.push(...(await range.logs([...new Set(addresses)], filter)));
    }
    return found;
  }

  /** Logs of the wallet itself, if it is a listed contract. */
  private async ofContract(range: BlockRange): Promise<EvmLog[]> {
    const own = this.mappings.filter(({ wallet, addresses }) => wallet === 'contract' && addresses.has(this.wallet));
    if (own.length === 0) return [];
    return range.logs([this.wallet], [own.map(({ topic }) => topic)]);
  }

  /** Logs about tokens that the wallet held at any time in the range. */
  private async ofTokens(logs: readonly EvmLog[], held: ReadonlySet<string>, range: BlockRange): Promise<EvmLog[]> {
    const found: EvmLog[] = [];
    for (const mapping of this.mappings.filter(({ wallet }) => wallet === 'token-owner')) {
      const came = logs.filter((log) => this.isTokenTransfer(log, mapping) && log.topics[2] === this.topic);
      const tokens = new Set([...held, ...came.map(tokenOf)]);
      for (const address of mapping.addresses) {
        const ids = [...tokens].filter((token) => token.startsWith(`${address}/`)).map((token) => token.split('/')[1]!);
        for (let i = 0; i < ids.length; i += TOKENS) {
          const filter = [[mapping.topic], ids.slice(i, i + TOKENS)];
          found.push(...(await range.logs([address], filter)));
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
    return addresses.has(address) && topics[0] === ERC721_TRANSFER;
  }

  private mappingOf(log: EvmLog, tokens: ReadonlySet<string>): Mapping | undefined {
    return this.mappings.find((mapping) => {
      const { wallet, topic, topics } = mapping;
      if (log.topics[0] !== topic || log.topics.length !== topics || !counts(log, mapping)) return false;
      if (wallet === 'contract') return log.address === this.wallet;
      if (wallet === 'token-owner') return tokens.has(`${log.address}/${log.topics[1]}`);
      return log.topics[wallet] === this.topic;
    });
  }
}

/** Whether a listed contract has emitted the log, about an attester and a schema that count there. */
function counts(log: EvmLog, { listed, attester, schema }: Mapping): boolean {
  return listed.some(({ address, attesters, schemas }) => {
    if (address !== log.address) return false;
    if (attester !== undefined && !attesters?.has(`0x${log.topics[attester]!.slice(-40)}`)) return false;
    return schema === undefined || schemas === undefined || schemas.has(log.topics[schema]!);
  });
}

function inLowerCase({ address, attesters, schemas }: Contract): Listed {
  const lower = (values: readonly string[] | undefined) => values && new Set(values.map((one) => one.toLowerCase()));
  return { address: address.toLowerCase(), attesters: lower(attesters), schemas: lower(schemas) };
}

const placeOf = ({ blockHash, logIndex }: EvmLog): Place => `${blockHash}:${Number(logIndex)}`;
/** Only its attester can revoke an attestation. */
const attestationOf = ({ address, topics, word }: EvmLog) => `${address}/${topics[2]}/${word}`;
const tokenOf = ({ address, topics }: EvmLog) => `${address}/${topics[3]}`;
const topicsOf = (event: string) => 1 + (event.match(/\bindexed\b/g) ?? []).length;

function selector(event: string): Hex {
  return EventFragment.from(event).topicHash as Hex;
}
