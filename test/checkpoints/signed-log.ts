import { checkpointIn } from '../../src/credentials/log-key.js';
import type { RecordedEvent } from '../../src/kernel/event.js';
import { addLeaf, base64Of, leafOf, rootOfPeaks } from '../../src/kernel/merkle.js';
import { Server } from '../e2e/server.js';

/** What was signed while something broke, to be compared with the log that is there afterwards. */
export class SignedNotes {
  private readonly seen = new Set<string>();
  private watching: NodeJS.Timeout | undefined;

  /** @param read the newest signed note; an empty text while there is none, or nobody tells */
  constructor(private readonly read: () => Promise<string>) {}

  get count(): number {
    return this.seen.size;
  }

  /** @returns the newest note */
  async look(): Promise<string> {
    const note = await this.read();
    if (note !== '') this.seen.add(note);
    return note;
  }

  watch(): void {
    this.watching = setInterval(() => void this.look(), 20);
  }

  end(): void {
    clearInterval(this.watching);
  }

  /** Every note that was seen, and every checkpoint that is recorded, is of the first events of this one log. */
  expectNoForkOf(events: readonly RecordedEvent[]): void {
    const peaks: string[] = [];
    const roots = new Map([[0, '']]);
    for (const [index, event] of events.entries()) {
      addLeaf(peaks, index, leafOf(event));
      roots.set(index + 1, base64Of(rootOfPeaks(peaks)));
    }
    const recorded = events.filter(({ type }) => type === 'LogCheckpointed').map(({ data }) => data);
    const signed = [...this.seen].map(checkpointIn);
    expect([...recorded, ...signed].filter(({ size, root }) => roots.get(size as number) !== root)).toEqual([]);
    // One log has one origin, and no size is signed or recorded twice.
    const [{ data }] = events.filter(({ type }) => type === 'LogOriginBegun') as [RecordedEvent];
    expect(new Set(signed.map(({ origin }) => origin))).toEqual(new Set([data['origin']]));
    for (const checkpoints of [recorded, signed]) {
      expect(new Set(checkpoints.map(({ size }) => size)).size).toBe(checkpoints.length);
    }
    expect(signed.every(({ size }) => recorded.some((checkpoint) => checkpoint['size'] === size))).toBe(true);
  }
}

export const eventsOf = (exported: string): RecordedEvent[] =>
  exported
    .trim()
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as RecordedEvent);

const KIND = { action_type: 'loan_repayment', category: 'finance', criticality: 'high', platform_id: 'lender' };

/** So many that a checkpoint follows within a second. @returns the position of the last one; 0: they were not acknowledged */
export async function relayMany(server: Server): Promise<number> {
  const actions = Array.from({ length: 1_000 }, (_, n) => ({ ...KIND, tris_id: `tris:${n}` }));
  const sent = server.send('POST', '/v1/decision-relay/batch', { body: { actions } });
  return sent.then(
    ({ status, headers }) => (status === 200 ? Number(String(headers['credence-position']).split('.')[1]) : 0),
    () => 0,
  );
}
