/** Limits of the number of appends in flight. */
const LEAST = 64;
const MOST = 512;
/** How much longer than on an idle server an append may take, ms. */
const QUEUEING_MS = 500;
/** The window shrinks by the factor by which the delay is too long, and to this part of it at the least. */
const LEAST_FACTOR = 0.3;
/** Appends by which the window grows in one round trip. */
const GROWTH = 8;
/**
 * The time of an append on an idle server is measured again after this time, ms, and at first soon after the start, with
 * this many appends, while at most as many are in flight.
 */
const MEASURE_MS = 30_000;
const FIRST_MEASURE_MS = 2_000;
const MEASURED = 8;

/**
 * How many appends may be in flight. It grows by a constant per round trip as long as appends wait in the server for
 * less than half a second, and otherwise shrinks by the factor by which they wait too long, at most once in a round trip
 * (AIMD on the delay, as in TCP Vegas and LEDBAT). The time on an idle server is measured with few appends in flight.
 */
export class AppendWindow {
  private exactSize = LEAST;
  /** The shortest time of an append with few others in flight, when that was measured, and with how many. */
  private idle = { ms: Infinity, at: performance.now() - MEASURE_MS + FIRST_MEASURE_MS, appends: MEASURED };
  private shrunkAt = -Infinity;

  /** How many appends may be in flight now. */
  get limit(): number {
    const isMeasuring = this.idle.appends < MEASURED || performance.now() - this.idle.at > MEASURE_MS;
    return isMeasuring ? MEASURED : this.size;
  }

  /** The appends that may be in flight. It does not become lower while the idle server's time is being measured. */
  get size(): number {
    return Math.floor(this.exactSize);
  }

  /** @param inFlight the number of appends in flight when this one was sent, at `sentAt` of `performance.now()` */
  answered(sentAt: number, inFlight: number): void {
    const now = performance.now();
    const ms = now - sentAt;
    if (inFlight <= MEASURED) this.measure(ms, now);
    const queueing = ms - this.idle.ms;
    if (queueing > QUEUEING_MS) {
      // Appends that were sent before the window shrank say nothing of the present one.
      if (sentAt < this.shrunkAt) return;
      this.shrunkAt = now;
      this.exactSize = Math.max(LEAST, this.exactSize * Math.max(LEAST_FACTOR, QUEUEING_MS / queueing));
    } else if (2 * inFlight >= this.size) {
      this.exactSize = Math.min(MOST, this.exactSize + GROWTH / this.exactSize);
    }
  }

  private measure(ms: number, now: number): void {
    const isNew = now - this.idle.at > MEASURE_MS;
    this.idle = isNew
      ? { ms, at: now, appends: 1 }
      : { ms: Math.min(ms, this.idle.ms), at: this.idle.at, appends: this.idle.appends + 1 };
  }
}
