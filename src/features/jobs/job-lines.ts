import { randomUUID } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { Problem } from '../../kernel/problems.js';
import { KEY_VALUE, type KeyValue } from '../../stores/ports/key-value.js';

/** Lines in one stored part. */
const PART = 1_000;
const HOUR_MS = 3_600_000;
/** How long lines are stored. */
const KEPT_MS = 24 * HOUR_MS;

/** Where lines are stored, and until when they can be read. A type, not an interface: it is stored as JSON. */
export type StoredLines = { run: string; parts: number; until: string };

/** Stores what a job found, as lines of JSON, where that is more than its result can hold. */
@Injectable()
export class JobLines {
  constructor(
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  /** Begins new lines. */
  begin(): LineWriter {
    return new LineWriter(this.keyValue, this.clock);
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

  private async part({ run, until }: StoredLines, index: number): Promise<string> {
    const text = Date.parse(until) > this.clock() ? await this.keyValue.get(partOf(run, index)) : undefined;
    if (typeof text === 'string') return text;
    throw new Problem('job_result_expired', `What the job found was stored until ${until}; start it again.`);
  }

  /** Stores the same lines for longer. @throws Problem job_result_expired */
  async keep(stored: StoredLines, until: number): Promise<StoredLines> {
    for (let index = 0; index < stored.parts; index++) {
      const text = await this.part(stored, index);
      await this.keyValue.put(partOf(stored.run, index), text, until + HOUR_MS - this.clock());
    }
    return { ...stored, until: new Date(until).toISOString() };
  }
}

export class LineWriter {
  private readonly run = randomUUID();
  private parts = 0;
  private lines: string[] = [];

  constructor(
    private readonly keyValue: KeyValue,
    private readonly clock: Clock,
  ) {}

  /** Adds a line. Call `store` now and then: until it is called, lines are in memory. */
  add(line: object): void {
    this.lines.push(`${JSON.stringify(line)}\n`);
  }

  /** Stores the lines if they fill a part. */
  async store(): Promise<void> {
    if (this.lines.length >= PART) await this.flush();
  }

  /** Stores all lines that were added. */
  async end(): Promise<StoredLines> {
    if (this.lines.length > 0) await this.flush();
    return { run: this.run, parts: this.parts, until: new Date(this.clock() + KEPT_MS).toISOString() };
  }

  private async flush(): Promise<void> {
    await this.keyValue.put(partOf(this.run, this.parts++), this.lines.join(''), KEPT_MS + HOUR_MS);
    this.lines = [];
  }
}

const partOf = (run: string, index: number): string => `job-lines:${run}:${index}`;
