/** Milliseconds since the Unix epoch, UTC. Passed into every decision so that nothing pure reads the time. */
export type Clock = () => number;
export const CLOCK = Symbol('Clock');
