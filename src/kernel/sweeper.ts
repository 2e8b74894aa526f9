import type { OnApplicationBootstrap, OnApplicationShutdown } from '@nestjs/common';
import type { Config } from './config.js';

/** Looks again and again, in a worker, for what a crash or a lost queue has left undone. What fails is tried again. */
export abstract class Sweeper implements OnApplicationBootstrap, OnApplicationShutdown {
  protected readonly sweepMs: number = 60_000;
  protected abstract readonly config: Config;
  private timer: NodeJS.Timeout | undefined;

  abstract sweep(): Promise<void>;

  onApplicationBootstrap(): void {
    if (!this.config.has('worker')) return;
    const attempt = () => void this.sweep().catch(() => undefined);
    attempt();
    this.timer = setInterval(attempt, this.sweepMs).unref();
  }

  onApplicationShutdown(): void {
    clearInterval(this.timer);
  }
}
