import type { LookupAddress } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { Turns } from '../../kernel/turns.js';

/** How long a look-up may take, ms. */
const DEADLINE_MS = 3_000;
/** When a name server is asked again, ms. */
const TRY_MS = 1_000;
/** Look-ups of one owner at the same time. */
const MOST_OF_ONE = 16;
const LOCALHOST: LookupAddress[] = [
  { address: '127.0.0.1', family: 4 },
  { address: '::1', family: 6 },
];

/**
 * Looks up the names of receivers. Their name servers may never answer, so this does not use the system's resolver: it has
 * few threads, for everything in the process, and a look-up there does not end by a deadline. Only name servers count,
 * not files such as /etc/hosts.
 */
export class ReceiverNames {
  private readonly turns = new Turns(Infinity, MOST_OF_ONE);
  /** Those in progress, by owner and name: connections to one receiver wait for the same. */
  private readonly pending = new Map<string, Promise<LookupAddress[]>>();

  /** @param servers the name servers; default: those of the system */
  constructor(private readonly servers?: readonly string[]) {}

  /** @throws an error of node:dns; its `code` is ECANCELLED or ETIMEOUT if there was no answer */
  async addressesOf(name: string, owner: string | null): Promise<LookupAddress[]> {
    if (name === 'localhost') return LOCALHOST;
    const key = `${owner ?? ''} ${name}`;
    let addresses = this.pending.get(key);
    if (!addresses) {
      addresses = this.turns.run(owner ?? '', () => lookUp(name, this.servers)).finally(() => this.pending.delete(key));
      this.pending.set(key, addresses);
    }
    return addresses;
  }
}

async function lookUp(name: string, servers: readonly string[] | undefined): Promise<LookupAddress[]> {
  const resolver = new Resolver({ timeout: TRY_MS, tries: DEADLINE_MS / TRY_MS });
  if (servers) resolver.setServers(servers);
  // After what has arrived: the process may have been busy for as long.
  const deadline = setTimeout(() => setImmediate(() => resolver.cancel()), DEADLINE_MS);
  try {
    const answers = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
    const found = answers.flatMap((answer, n) =>
      answer.status === 'fulfilled' ? answer.value.map((address) => ({ address, family: n === 0 ? 4 : 6 })) : [],
    );
    if (found.length === 0) throw (answers[0] as PromiseRejectedResult).reason as Error;
    return found;
  } finally {
    clearTimeout(deadline);
  }
}
