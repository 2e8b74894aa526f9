import { inTime } from '../kernel/turn.js';

/** The state of one part of the service. `detail` is one sentence for an operator, without secrets. */
export interface CheckResult {
  ok: boolean;
  detail: string;
}

export interface Readiness {
  status: 'ok' | 'unavailable';
  checks: { name: string; status: 'ok' | 'failed'; detail: string }[];
}

const TIMEOUT_MS = 2_000;

/** The checks of `/health/ready`. Each module that may not be ready adds its own. */
export class Health {
  private readonly checks = new Map<string, () => CheckResult | Promise<CheckResult>>();

  add(name: string, check: () => CheckResult | Promise<CheckResult>): void {
    this.checks.set(name, check);
  }

  /** Runs all checks at once; a check that throws or takes over 2 s has failed. */
  async ready(): Promise<Readiness> {
    const checks = await Promise.all(
      [...this.checks].map(async ([name, check]) => {
        const { ok, detail } = await withTimeout(check);
        return { name, status: ok ? ('ok' as const) : ('failed' as const), detail };
      }),
    );
    return { status: checks.every(({ status }) => status === 'ok') ? 'ok' : 'unavailable', checks };
  }
}

async function withTimeout(check: () => CheckResult | Promise<CheckResult>): Promise<CheckResult> {
  try {
    return await inTime(Promise.resolve().then(check), TIMEOUT_MS);
  } catch (error) {
    return { ok: false, detail: error instanceof Error ? error.message : 'failed' };
  }
}
