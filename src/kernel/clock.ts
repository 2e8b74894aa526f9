/** Milliseconds since the Unix epoch, UTC. Passed into every decision so that nothing pure reads the time. */
export type Clock = () => number;
export const CLOCK = Symbol('Clock');

/** How far the clock of a client, or of another process that signs, may be ahead of ours, ms. */
export const CLOCK_SKEW_MS = 60_000;
