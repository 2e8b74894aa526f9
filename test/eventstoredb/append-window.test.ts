import { jest } from '@jest/globals';
import { AppendAdmission } from '../../src/stores/eventstoredb/admission.js';
import { AppendWindow } from '../../src/stores/eventstoredb/append-window.js';
import { StoreUnavailable } from '../../src/stores/ports/event-store.js';

/** Of the simulations: what lies under it is the function of all. */
afterEach(() => void Reflect.deleteProperty(performance, 'now'));

/** A server that stores so many appends a second, one after the other, with a client that always uses its window. */
class Simulation {
  readonly window = new AppendWindow();
  private now = 0;
  private freeAt = 0;
  private readonly inFlight: { sentAt: number; doneAt: number; inFlight: number }[] = [];

  constructor(
    public perSecond: number,
    readonly idleMs: number,
  ) {
    // A spy would record millions of calls.
    Object.defineProperty(performance, 'now', { configurable: true, value: () => this.now });
  }

  /** @returns appends a second, and their mean time in ms */
  run(seconds: number): { rate: number; ms: number } {
    const until = this.now + 1000 * seconds;
    let [done, total] = [0, 0];
    while (this.now < until) {
      while (this.inFlight.length < this.window.limit) {
        this.freeAt = Math.max(this.freeAt, this.now) + 1000 / this.perSecond;
        const doneAt = this.freeAt + this.idleMs;
        this.inFlight.push({ sentAt: this.now, doneAt, inFlight: this.inFlight.length + 1 });
      }
      const { sentAt, doneAt, inFlight } = this.inFlight.shift()!;
      this.now = doneAt;
      this.window.answered(sentAt, inFlight);
      done++;
      total += doneAt - sentAt;
    }
    return { rate: done / seconds, ms: total / done };
  }
}

test.each([
  ['fast', 10_000, 5],
  ['far away', 3_000, 150],
])('a server that is %s is used fully', (_what, perSecond, idleMs) => {
  const simulation = new Simulation(perSecond, idleMs);
  simulation.run(30);
  const { rate } = simulation.run(30);
  expect(simulation.window.size).toBe(512);
  expect(rate).toBeGreaterThan(0.95 * Math.min(perSecond, (1000 * 512) / idleMs));
});

test.each([
  ['slow', 400, 20],
  ['very slow', 100, 20],
  ['slow and far away', 300, 400],
])('on a server that is %s appends hardly wait, and its whole rate is used', (_what, perSecond, idleMs) => {
  const simulation = new Simulation(perSecond, idleMs);
  simulation.run(30);
  const { rate, ms } = simulation.run(120);
  expect(ms).toBeLessThan(idleMs + 700);
  expect(rate).toBeGreaterThan(0.9 * perSecond);
});

test('the window grows again when the server is fast again', () => {
  const simulation = new Simulation(100, 5);
  simulation.run(60);
  expect(simulation.window.size).toBeLessThan(100);
  simulation.perSecond = 10_000;
  simulation.run(30);
  expect(simulation.window.size).toBe(512);
});

test('appends that were sent before the window shrank do not shrink it again', () => {
  const simulation = new Simulation(10_000, 5);
  simulation.run(30);
  const { window } = simulation;
  window.answered(performance.now() - 700, 512);
  const shrunk = window.size;
  expect(shrunk).toBeLessThan(512);
  window.answered(performance.now() - 700, 512);
  expect(window.size).toBe(shrunk);
});

test('requests are admitted in their order up to the limit, and refused after two seconds', async () => {
  jest.useFakeTimers();
  try {
    const limit = 1;
    const busy = () => new StoreUnavailable('busy', { code: 'store_busy' });
    const admission = new AppendAdmission(() => limit, busy);
    const admitted: number[] = [];
    expect(admission.enter('a')).toBeUndefined();
    const waiting = [1, 2, 3].map((n) => admission.enter('a')!.then(() => void admitted.push(n)));
    const refused = expect(waiting[2]).rejects.toMatchObject({ code: 'store_busy' });
    admission.leave();
    await waiting[0];
    admission.leave();
    await waiting[1];
    expect(admitted).toEqual([1, 2]);
    jest.advanceTimersByTime(2_000);
    await refused;
    // The one that was refused holds no place.
    admission.leave();
    expect(admission.enter('a')).toBeUndefined();
  } finally {
    jest.useRealTimers();
  }
});

test('owners are admitted in turn, and one of them fills half of the places to wait', async () => {
  const admission = new AppendAdmission(
    () => 1,
    () => new StoreUnavailable('busy', { code: 'store_busy' }),
  );
  expect(admission.enter('flood')).toBeUndefined();
  const admitted: string[] = [];
  const enter = (owner: string) => void admission.enter(owner)!.then(() => admitted.push(owner));
  for (let n = 0; n < 2_048; n++) enter('flood');
  expect(() => admission.enter('flood')).toThrow('busy');
  for (const owner of ['other', 'third', 'other']) enter(owner);
  for (let n = 0; n < 6; n++) {
    admission.leave();
    await Promise.resolve();
  }
  expect(admitted).toEqual(['flood', 'other', 'third', 'flood', 'other', 'flood']);
  while (admission.waiting > 0) admission.leave();
});
