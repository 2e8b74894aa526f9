import { randomUUID } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { Quotas } from '../../commands/quotas.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { Problem } from '../../kernel/problems.js';
import { KEY_VALUE, type KeyValue, changeValue } from '../../stores/ports/key-value.js';

/** Lines in one stored part. */
const PART = 1_000;
const HOUR_MS = 3_600_000;
/** How long lines are stored. */
const KEPT_MS = 24 * HOUR_MS;

/** Where lines are stored, and until when they can be read. A type, not an interface: it is stored as JSON. */
export type StoredLines = { run: string; parts: number; until: string };

/** Lines as they are counted; `until` in ms. A type, not an interface: it is stored as JSON. */
type Run = { run: string; parts: number; bytes: number; until: number };

/** Stores what a job found, as lines of JSON, where that is more than its result can hold. */
@Injectable()
export class JobLines {
  constructor(
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
    @Inject(CLOCK) private readonly clock: Clock,
    private readonly quotas: Quotas,
  ) {
    const runs = async (owner: string) => ((await keyValue.get(runsOf(owner))) as Run[] | undefined) ?? [];
    quotas.measure('job_results', async (owner) => (await runs(owner)).length);
    quotas.measure('job_bytes', async (owner) => bytesOf(await runs(owner)));
  }

  /** Begins new lines. @param owner whose lines count together */
  begin(owner: string) {
    const written = { run: randomUUID(), parts: 0, bytes: 0 };
    let lines: string[] = [];
    const flush = async () => {
      const part = lines.join('');
      lines = [];
      written.bytes += Buffer.byteLength(part);
      await this.keyValue.put(partOf(written.run, written.parts++), part, KEPT_MS + HOUR_MS);
      await this.count(owner, { ...written, until: this.clock() + KEPT_MS });
    };
    return {
      /** Adds a line. Call `store` now and then: until it is called, lines are in memory. */
      add: (line: object): void => void lines.push(`${JSON.stringify(line)}\n`),
      /** Stores the lines if they fill a part. */
      store: async (): Promise<void> => {
        if (lines.length >= PART) await flush();
      },
      /** Stores the rest. More lines can be added afterwards, and ended again. */
      end: async (): Promise<StoredLines> => {
        if (lines.length > 0) await flush();
        const { run, parts } = written;
        return { run, parts, until: new Date(this.clock() + KEPT_MS).toISOString() };
      },
    };
  }

  /**
   * Texts of whole lines. Short-lived state can be lost before its time: then reading ends with an error.
   * @throws Problem job_result_expired before the first text
   */
  async read(stored: StoredLines): Promise<AsyncIterable<string>> {
    const first = stored.parts > 0 ? await this.part(stored, 0) : '';
    const part = (index: number) => this.part(stored, index);
    return (async function* () {
      yield first;
      for (let index = 1; index < stored.parts; index++) yield await part(index);
    })();
  }

  /** The lines of a job whose result has `lines_until` and, apart from what is shown of it, `stored`. @throws as `read` */
  ofResult(result: unknown): Promise<AsyncIterable<string>> {
    const { stored, lines_until } = result as { stored: Omit<StoredLines, 'until'>; lines_until: string };
    return this.read({ ...stored, until: lines_until });
  }

  private async part({ run, until }: StoredLines, index: number): Promise<string> {
    const text = Date.parse(until) > this.clock() ? await this.keyValue.get(partOf(run, index)) : undefined;
    if (typeof text === 'string') return text;
    throw new Problem(
      'job_result_expired',
      `What the job found is not stored any more: it expired at ${until}, or later jobs of the same owner needed the space. Start it again.`,
    );
  }

  /** Removes the oldest lines of an owner that are too many with these, but not those that are being written. */
  private async count(owner: string, written: Run): Promise<void> {
    const { job_results, job_bytes } = this.quotas.limits;
    let removed: Run[] = [];
    await changeValue<Run[]>(this.keyValue, runsOf(owner), KEPT_MS, async (stored = []) => {
      const now = this.clock();
      const runs = [...stored.filter(({ run, until }) => run !== written.run && until > now), written];
      removed = [];
      while (runs.length > 1 && (runs.length > job_results || bytesOf(runs) > job_bytes)) removed.push(runs.shift()!);
      return runs;
    });
    for (const { run, parts } of removed) {
      for (let index = 0; index < parts; index++) await this.keyValue.take(partOf(run, index));
    }
  }

  /** Stores the same lines for longer, and counts them no more. @throws Problem job_result_expired */
  async keep(stored: StoredLines, until: number, owner: string): Promise<StoredLines> {
    await changeValue<Run[]>(this.keyValue, runsOf(owner), KEPT_MS, async (runs) =>
      runs?.filter(({ run }) => run !== stored.run),
    );
    for (let index = 0; index < stored.parts; index++) {
      const text = await this.part(stored, index);
      await this.keyValue.put(partOf(stored.run, index), text, until + HOUR_MS - this.clock());
    }
    return { ...stored, until: new Date(until).toISOString() };
  }
}

const bytesOf = (runs: readonly Run[]): number => runs.reduce((sum, { bytes }) => sum + bytes, 0);
const partOf = (run: string, index: number): string => `job-lines:${run}:${index}`;
const runsOf = (owner: string): string => `job-lines-of:${owner}`;
