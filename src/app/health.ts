import { inTime } from '../kernel/turn.js';
import type { ReadinessDto } from './ops.dto.js';

/** The state of one part of the service. `detail` is one sentence for an operator, without secrets. */
export interface CheckResult {
  ok: boolean;
  detail: string;
}

/** What a process may be ready for, if not for everything that it does. */
export const PURPOSES = ['reads', 'writes'] as const;
export type Purpose = (typeof PURPOSES)[number];

/** @param purpose undefined: everything that the process does */
type Check = (purpose: Purpose | undefined) => CheckResult | Promise<CheckResult>;

const TIMEOUT_MS = 2_000;

/** The checks of `/health/ready`. Each module that may not be ready adds its own. */
export class Health {
  private readonly checks = new Map<string, { check: Check; purposes: readonly Purpose[] }>();

  /** @param purposes those that it is needed for, besides everything */
  add(name: string, check: Check, purposes: readonly Purpose[] = PURPOSES): void {
    this.checks.set(name, { check, purposes });
  }

  /** Runs the checks at once; a check that throws or takes over 2 s has failed. */
  async ready(purpose?: Purpose): Promise<ReadinessDto> {
    const needed = [...this.checks].filter(([, { purposes }]) => !purpose || purposes.includes(purpose));
    const checks = await Promise.all(
      needed.map(async ([name, { check }]) => {
        const { ok, detail } = await inTime(Promise.resolve(purpose).then(check), TIMEOUT_MS).catch(failed);
        return { name, status: ok ? 'ok' : 'failed', detail };
      }),
    );
    return { status: checks.every(({ status }) => status === 'ok') ? 'ok' : 'unavailable', checks };
  }
}

const failed = (error: unknown): CheckResult => {
  return { ok: false, detail: error instanceof Error ? error.message : 'failed' };
};
