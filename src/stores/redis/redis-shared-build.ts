import type { EncodedRows } from '../ports/encoded-rows.js';
import { type Checkpoint, startOf } from '../ports/read-models.js';
import type { BuildPlan, BuildState, PartName, PartState, SharedBuild, Spill } from '../ports/shared-build.js';
import {
  BEGIN_BUILD,
  BUILD_STATE,
  CLAIM_PART,
  COMPLETE_PART,
  DISCARD_BUILD,
  FAIL_BUILD,
  FINISH_BUILD,
  PUT_ROWS,
  RENEW_PART,
  SPILL,
} from './build-scripts.js';
import type { RedisConnection, Script } from './connection.js';
import { packRows } from './packed-rows.js';
import { checkpointText } from './read-batch.js';

/** What a build needs of its generation. */
export interface BuiltGeneration {
  /** Its keys; the first is that of its state. */
  keys: readonly string[];
  /** The time for scripts, empty if that of the server counts. */
  now(): string;
}

/** A shared build in Redis. See build-scripts.ts. */
export class RedisSharedBuild implements SharedBuild {
  /**
   * The build under way, or else this one.
   * @returns undefined if the lease is not held, or if something was applied
   */
  static async begin(
    connection: RedisConnection,
    generation: BuiltGeneration,
    holder: string,
    log: string,
    plan: BuildPlan,
  ): Promise<RedisSharedBuild | undefined> {
    const start = checkpointText(startOf(log));
    const args = [holder, generation.now(), start, log, plan.id, JSON.stringify(plan)];
    const text = await connection.run<string | null>(BEGIN_BUILD, headOf(generation.keys), args);
    return text === null ? undefined : new RedisSharedBuild(connection, generation, JSON.parse(text) as BuildPlan);
  }

  /** The build under way. */
  static async open(connection: RedisConnection, generation: BuiltGeneration): Promise<RedisSharedBuild | undefined> {
    const [, build] = headOf(generation.keys);
    const text = await connection.send((redis) => redis.hget(build, 'plan'));
    return text === null ? undefined : new RedisSharedBuild(connection, generation, JSON.parse(text) as BuildPlan);
  }

  private readonly head: readonly [state: string, build: string];

  private constructor(
    private readonly connection: RedisConnection,
    private readonly generation: BuiltGeneration,
    readonly plan: BuildPlan,
  ) {
    this.head = headOf(generation.keys);
  }

  async state(): Promise<BuildState | undefined> {
    const args = [this.plan.id, this.generation.now()];
    const answer = await this.connection.run<string[] | null>(BUILD_STATE, this.head, args);
    if (answer === null) return undefined;
    const at = Number(answer.pop());
    const fields = new Map<string, string>();
    for (let i = 0; i < answer.length; i += 2) fields.set(answer[i]!, answer[i + 1]!);
    const parts = new Map<PartName, PartState>();
    for (const [field, holder] of fields) {
      const progress = fields.get(`${field}:progress`);
      if (progress === undefined) continue;
      const isDone = holder === 'done';
      const isClaimed = !isDone && Number(fields.get(`${field}:until`)) > at;
      parts.set(field as PartName, { isDone, isClaimed, progress: Number(progress) });
    }
    return { parts, failure: fields.get('failure') };
  }

  claim(part: PartName, holder: string, ttlMs: number): Promise<boolean> {
    return this.run(CLAIM_PART, this.head, [part, holder, ttlMs, this.generation.now()]);
  }

  renew(part: PartName, holder: string, ttlMs: number, progress: number): Promise<boolean> {
    return this.run(RENEW_PART, this.head, [part, holder, ttlMs, this.generation.now(), progress]);
  }

  spill(part: PartName, holder: string, spill: Spill, range: number, events: Buffer): Promise<boolean> {
    return this.run(SPILL, [...this.head, spillKey(this.generation.keys, spill)], [part, holder, range, events]);
  }

  async spilled(spill: Spill, range: number): Promise<Buffer | undefined> {
    const key = spillKey(this.generation.keys, spill);
    return (await this.connection.send((redis) => redis.hgetBuffer(key, String(range)))) ?? undefined;
  }

  put(part: PartName, holder: string, rows: EncodedRows): Promise<boolean> {
    const { plain, entries } = packRows(rows);
    return this.run(PUT_ROWS, [...this.head, ...rowKeys(this.generation.keys)], [part, holder, plain, entries]);
  }

  complete(part: PartName, holder: string, progress: number): Promise<boolean> {
    const [kind, n] = part.split(':');
    const spent = kind === 'partition' ? [spillKey(this.generation.keys, Number(n))] : [];
    return this.run(COMPLETE_PART, [...this.head, ...spent], [part, holder, progress]);
  }

  async fail(reason: string): Promise<void> {
    await this.run(FAIL_BUILD, this.head, [reason]);
  }

  finish(holder: string, next: Checkpoint): Promise<boolean> {
    const { keys, now } = this.generation;
    const [, ...own] = keys;
    const args = [holder, now(), checkpointText(startOf(next.log)), checkpointText(next)];
    const all = [...this.head, ...rowKeys(keys), ...own, ...spillKeys(keys, this.plan)];
    return this.run(FINISH_BUILD, all, args);
  }

  async discard(): Promise<void> {
    const { keys } = this.generation;
    const all = [...this.head, ...rowKeys(keys), ...spillKeys(keys, this.plan)];
    await this.connection.run(DISCARD_BUILD, all, [this.plan.id]);
  }

  private async run(script: Script, keys: readonly string[], args: readonly (string | number | Buffer)[]) {
    const answer = await this.connection.run<number>(script, keys, [this.plan.id, ...args]);
    if (answer === -1) await this.fail('rows were lost');
    return answer === 1;
  }
}

/** Keys of the build in the slot of its generation. */
function keyOf([state]: readonly string[], name: string): string {
  return `${state}:build:${name}`;
}

function headOf(keys: readonly string[]): readonly [state: string, build: string] {
  return [keys[0]!, keyOf(keys, 'plan')];
}

function rowKeys(keys: readonly string[]): string[] {
  return ['rows', 'index', 'ranges'].map((name) => keyOf(keys, name));
}

function spillKey(keys: readonly string[], spill: Spill): string {
  return keyOf(keys, `events:${spill}`);
}

function spillKeys(keys: readonly string[], { partitions }: BuildPlan): string[] {
  const spills: Spill[] = [...Array.from({ length: partitions }, (_, n) => n), 'shared'];
  return spills.map((spill) => spillKey(keys, spill));
}
