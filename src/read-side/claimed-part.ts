import { randomUUID } from 'node:crypto';
import type { PartName, SharedBuild } from '../stores/ports/shared-build.js';

/** Another process has the part, or the build has ended. */
export class PartLost extends Error {}

/** The claim of a process to a part of a shared build. It is renewed until it is lost or ended. */
export class ClaimedPart {
  progress = 0;
  readonly signal: AbortSignal;
  private readonly lost = new AbortController();
  private readonly renewal: NodeJS.Timeout;

  static async claim(
    name: PartName,
    build: SharedBuild,
    ms: number,
    signal: AbortSignal,
  ): Promise<ClaimedPart | undefined> {
    const holder = randomUUID();
    return (await build.claim(name, holder, ms)) ? new ClaimedPart(name, holder, build, ms, signal) : undefined;
  }

  private constructor(
    readonly name: PartName,
    readonly holder: string,
    private readonly build: SharedBuild,
    ms: number,
    signal: AbortSignal,
  ) {
    this.signal = AbortSignal.any([signal, this.lost.signal]);
    const renew = () =>
      build.renew(name, holder, ms, this.progress).then(
        (isHeld) => !isHeld && this.lost.abort(),
        () => undefined, // The store is unavailable. Another process takes the part if it lasts.
      );
    this.renewal = setInterval(renew, ms / 3);
  }

  /** @throws PartLost unless the part was held */
  keep(wasHeld: boolean): void {
    if (!wasHeld) throw new PartLost();
    this.check();
  }

  /** @throws PartLost */
  check(): void {
    if (this.signal.aborted) throw new PartLost();
  }

  async complete(): Promise<void> {
    this.keep(await this.build.complete(this.name, this.holder, this.progress));
  }

  end(): void {
    clearInterval(this.renewal);
  }
}
