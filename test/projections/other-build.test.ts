import { jest } from '@jest/globals';
import { join } from 'node:path';
import { type Config, loadConfig } from '../../src/kernel/config.js';
import { Logger } from '../../src/kernel/logger.js';
import { PROJECTIONS, projectionsFor } from '../../src/read-side/all-projections.js';
import { LmdbEventStore } from '../../src/stores/lmdb/lmdb-event-store.js';
import { LmdbReadModels } from '../../src/stores/lmdb/lmdb-read-models.js';
import type { Projector } from '../../src/read-side/projector.js';
import { eventually } from '../contracts/harness.js';
import { plantAction } from '../contracts/sample-events.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';

/** Two builds of Credence, whose projections differ, beside one another on the same log and the same read models. */

const query = { get: { view: 'identities', key: 'somebody' } };
const LEFT_MS = 300;

/** The read side of a build in which the fold of this view has another version. */
async function buildWith(view: string, version: number) {
  const projections = PROJECTIONS.map((each) => (each.name === view ? { ...each, version } : each));
  jest.resetModules();
  jest.unstable_mockModule('../../src/read-side/all-projections.js', () => ({
    PROJECTIONS: projections,
    projectionsFor: (modules: Config['modules']) => {
      const names = new Set(projectionsFor(modules).map(({ name }) => name));
      return projections.filter(({ name }) => names.has(name));
    },
  }));
  // One after the other: jest links one graph of modules at a time.
  const { Projector } = await import('../../src/read-side/projector.js');
  const { Views } = await import('../../src/read-side/views.js');
  const { applyAll } = await import('../../src/cli/read-models.js');
  const { rollback, swap } = await import('../../src/read-side/generations.js');
  return { projections, Projector, Views, applyAll, rollback, swap };
}
type Build = Awaited<ReturnType<typeof buildWith>>;

let older: Build;
let newer: Build;
let place: Awaited<ReturnType<typeof temporaryFolder>>;
let store: LmdbEventStore;
let models: LmdbReadModels;
let running: Projector[];
let lines: string[];

beforeAll(async () => {
  older = await buildWith('identities', 901);
  newer = await buildWith('identities', 902);
});
beforeEach(async () => {
  place = await temporaryFolder();
  store = await LmdbEventStore.open(join(place.path, 'log'), {});
  models = await LmdbReadModels.open(join(place.path, 'views'), { clock: Date.now });
  running = [];
  lines = [];
  for (let n = 0; n < 3; n++) await plantAction(store, { n });
});
afterEach(async () => {
  await Promise.all(running.map((projector) => projector.stop()));
  await Promise.all([store.close(), models.close()]);
  await place.remove();
});

async function start({ Projector, projections }: Build): Promise<Projector> {
  const logger = new Logger('warn', (line) => void lines.push(line));
  const projector = new Projector(projections, store, models, logger, { leftMs: LEFT_MS });
  await projector.start();
  running.push(projector);
  return projector;
}

/** The generation that a process of this build reads; the refusal's code if it reads none. */
async function readBy({ Views }: Build): Promise<string> {
  const views = new Views(store, models);
  const read = () =>
    views.read([query]).then(
      ({ generation }) => generation,
      ({ code }: { code: string }) => code,
    );
  const first = await read();
  // The second time, the manifest is known.
  expect(await read()).toBe(first);
  return first;
}
const serves = (build: Build, generation: string) =>
  eventually(async () => (await readBy(build)) === generation, `${generation} serves`);

test('a newer build builds beside the older one, which serves until it is ready; neither reads rows of the other', async () => {
  await start(older);
  await serves(older, 'g1');
  expect(await readBy(newer)).toBe('projection_rebuilding');

  // Nothing applies the log to what the newer build needs: the older one goes on.
  const readers = new newer.Views(store, models);
  await expect(readers.read([query])).rejects.toMatchObject({
    code: 'projection_rebuilding',
    message: expect.stringContaining('g1 serves identities for another build of Credence'),
  });
  await start(newer);
  await serves(newer, 'g2');
  expect(await readBy(older)).toBe('projection_rebuilding');
  expect(lines.join('\n')).toContain('g1 serves for another build of Credence: g2 is built beside it');
  await eventually(() => lines.some((line) => line.includes('g2 serves instead of g1')), 'a line about the swap');
});

test('the older build does not take the views back while a process of the newer one is left, and does after', async () => {
  await start(older);
  await serves(older, 'g1');
  const upgraded = await start(newer);
  await serves(newer, 'g2');
  await plantAction(store, { n: 4 });
  const position = await store.head();
  // The older build keeps its generation up to date, well beyond the time after which it would take over.
  const isApplied = async () => (await models.generations()).every(({ checkpoint }) => checkpoint.position >= position);
  await eventually(isApplied, 'both generations have applied the action');
  const since = performance.now();
  await eventually(() => performance.now() - since > 2 * LEFT_MS + 1_000, 'two looks of the older build');
  expect(await readBy(newer)).toBe('g2');

  await upgraded.stop();
  await serves(older, 'g1');
  expect(await readBy(newer)).toBe('projection_rebuilding');
});

test('several processes of a newer build begin one generation and serve it once', async () => {
  await start(older);
  await serves(older, 'g1');
  await Promise.all([start(newer), start(newer), start(newer)]);
  await serves(newer, 'g2');
  expect((await models.generations()).map(({ id }) => id)).toEqual(['g1', 'g2']);
});

test('a command of another build is refused while a process serves, and builds its own read models when it has stopped', async () => {
  const server = await start(older);
  await serves(older, 'g1');
  const apply = () =>
    newer.applyAll({ eventStore: store, readModels: models }, loadConfig({ CREDENCE_DATA: place.path }));
  await expect(apply()).rejects.toThrow(
    'g1 serves for a running process of another build of Credence: use the command of that build, or stop it.',
  );
  expect(await readBy(older)).toBe('g1');
  await server.stop();
  await apply();
  expect(await readBy(newer)).toBe('g2');
  // Nor does a command serve what this build cannot read.
  await expect(newer.swap('g1', store, models)).rejects.toThrow('g1 was made by another build of Credence.');
  await expect(newer.rollback(store, models)).rejects.toThrow(
    'g1, which served before, was made by another build of Credence.',
  );
});
