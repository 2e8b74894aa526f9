import type { Clock } from '../../kernel/clock.js';
import { canonicalJson } from '../../kernel/hash.js';
import type { Json } from '../../kernel/json.js';
import { sealedJson, unsealedJson } from '../ports/sealed-json.js';
import { LmdbEnvironment } from './environment.js';
import { type KeyValue, storedKey } from '../ports/key-value.js';
import { Sweeper } from '../sweeper.js';

const SWEEP_MS = 60_000;
/** Entries read at once. */
const PAGE = 1_000;

const DATABASES = { databases: { entries: { encoding: 'string' } } } as const;

interface Entry {
  value: Json;
  /** ms since the epoch */
  expires_at: number;
}

/**
 * Short-lived state in LMDB. The folder may be shared with `LmdbJobs`. An entry that is not what was written is absent,
 * as if the folder had been deleted, and the next sweep removes it.
 */
export class LmdbKeyValue implements KeyValue {
  private readonly sweeper: Sweeper;
  private closed = false;

  /** @param options.onWarning told of damaged entries that were removed */
  static async open(
    folder: string,
    { clock, onWarning }: { clock: Clock; onWarning?: (message: string) => void },
  ): Promise<LmdbKeyValue> {
    return new LmdbKeyValue(await LmdbEnvironment.open(folder, DATABASES), clock, onWarning);
  }

  private constructor(
    private readonly env: LmdbEnvironment,
    private readonly clock: Clock,
    private readonly onWarning: ((message: string) => void) | undefined,
  ) {
    this.sweeper = new Sweeper(() => this.sweep(), SWEEP_MS);
  }

  async get(key: string): Promise<Json | undefined> {
    return this.env.read(() => this.entry(storedKey(key))?.value);
  }

  async put(key: string, value: Json, ttlMs: number): Promise<void> {
    await this.env.grow(() => this.putSync(storedKey(key), value, ttlMs));
  }

  async putIfAbsent(key: string, value: Json, ttlMs: number): Promise<boolean> {
    return this.env.grow(() => {
      if (this.entry(storedKey(key))) return false;
      this.putSync(storedKey(key), value, ttlMs);
      return true;
    });
  }

  async replace(key: string, expected: Json, next: Json, ttlMs: number): Promise<boolean> {
    const wanted = canonicalJson(expected);
    return this.env.grow(() => {
      const entry = this.entry(storedKey(key));
      if (!entry || canonicalJson(entry.value) !== wanted) return false;
      this.putSync(storedKey(key), next, ttlMs);
      return true;
    });
  }

  async take(key: string): Promise<Json | undefined> {
    return this.env.write(() => {
      const entry = this.entry(storedKey(key));
      if (entry) this.entries.removeSync(storedKey(key));
      return entry?.value;
    });
  }

  async increment(key: string, ttlMs: number, by = 1): Promise<{ count: number; resets_at: number }> {
    return this.env.grow(() => {
      const entry = this.entry(storedKey(key));
      const count = typeof entry?.value === 'number' ? entry.value + by : by;
      const resets_at = entry?.expires_at ?? this.clock() + ttlMs;
      this.entries.putSync(storedKey(key), sealedJson(storedKey(key), { value: count, expires_at: resets_at }));
      return { count, resets_at };
    });
  }

  /** Removes expired and damaged entries; runs every minute. @returns the number removed */
  async sweep(): Promise<number> {
    let removed = 0;
    for await (const page of this.env.pages<string>('entries', PAGE)) {
      if (this.closed) break;
      const absent = page.filter(({ key, value }) => !this.entry(key, value)).map(({ key }) => key);
      if (absent.length === 0) continue;
      const damaged: string[] = [];
      removed += await this.env.write(() => {
        damaged.length = 0;
        // An entry may have been put again meanwhile.
        const still = absent.filter((key) => this.entries.get(key) !== undefined && !this.entry(key));
        for (const key of still) {
          if (!unsealedJson(key, this.entries.get(key))) damaged.push(key);
          this.entries.removeSync(key);
        }
        return still.length;
      });
      if (damaged.length > 0) {
        this.onWarning?.(
          `entries in ${this.env.folder} were not what was written, and are lost: ${damaged.join(', ')}`,
        );
      }
    }
    return removed;
  }

  async close(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    await this.sweeper.stop();
    await this.env.close();
  }

  private get entries() {
    return this.env.database<string>('entries');
  }

  /** Undefined if it is absent, has expired, or is damaged. */
  private entry(key: string, text = this.entries.get(key)): Entry | undefined {
    const entry = unsealedJson<Entry>(key, text);
    return entry && entry.expires_at > this.clock() ? entry : undefined;
  }

  private putSync(key: string, value: Json, ttlMs: number): void {
    this.entries.putSync(key, sealedJson(key, { value, expires_at: this.clock() + ttlMs }));
  }
}

/**
 * Copies the entries whose keys begin with `prefix` and that another folder lacks, or lets expire sooner, while the
 * folder is in use.
 */
export async function copyMissing(folder: string, target: string, prefix: string): Promise<void> {
  const from = await LmdbEnvironment.open(folder, DATABASES);
  try {
    const to = await LmdbEnvironment.open(target, DATABASES);
    try {
      const expiry = (key: string, text?: string) => unsealedJson<Entry>(key, text)?.expires_at ?? 0;
      const range = { start: storedKey(prefix), end: `${storedKey(prefix)}\uffff` };
      for await (const page of from.pages<string>('entries', PAGE, range)) {
        const copied = to.database<string>('entries');
        const missing = page.filter(({ key, value }) => expiry(key, copied.get(key)) < expiry(key, value));
        if (missing.length > 0) await to.grow(() => missing.forEach(({ key, value }) => copied.putSync(key, value)));
      }
    } finally {
      await to.close();
    }
  } finally {
    await from.close();
  }
}
