import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createInterface } from 'node:readline';
import { sentenceOf } from '../../../src/app/start-failure.js';
import { IdentityReader } from '../../../src/features/disc/identity-reader.js';
import { score } from '../../../src/features/disc/score.js';
import { Lenses } from '../../../src/features/lenses/lenses.js';
import { Logger } from '../../../src/kernel/logger.js';
import { Problem } from '../../../src/kernel/problems.js';
import { PROJECTIONS } from '../../../src/read-side/all-projections.js';
import { Projector } from '../../../src/read-side/projector.js';
import { isIdentical, verify } from '../../../src/read-side/verify.js';
import { Views } from '../../../src/read-side/views.js';
import { closeStores, openStores } from '../../../src/stores/open.js';
import { StoreUnavailable } from '../../../src/stores/ports/event-store.js';

/**
 * Opens each data folder named by a line of input as a server does, reads every identity, verifies, and prints what came
 * of it.
 */

export interface Asked {
  data: string;
  members: string[];
}

export interface Read {
  /** The sentence with which the start was refused. */
  refused?: string;
  /** By identity: its numbers and a digest of its timeline, the code of a refusal, or that it is incomplete. */
  identities: Record<string, { total_tct?: number; timeline?: string; incomplete?: boolean; code?: string }>;
  verified?: string;
  /** What is no refusal: anything that a service must not end in. */
  faults: string[];
  log: string[];
}

const UNTIL_MS = 20_000;
const SOON = new Set(['projection_rebuilding', 'projection_behind', 'read_models_damaged']);

async function run({ data, members }: Asked): Promise<Read> {
  const result: Read = { identities: {}, faults: [], log: [] };
  const logger = new Logger('warn', (line) => void (result.log.length < 100 && result.log.push(line)));
  const deadline = performance.now() + UNTIL_MS;
  const opened = await openStores(data, Date.now, { logger, repairs: true }).catch((error: unknown) => {
    const sentence = sentenceOf(error);
    if (sentence === undefined) result.faults.push(`start: ${String((error as Error).stack)}`);
    result.refused = sentence ?? '';
  });
  if (!opened) return result;
  const { eventStore, readModels } = opened;
  const projector = new Projector(PROJECTIONS, eventStore, readModels, logger);
  const views = new Views(eventStore, readModels);
  const reader = new IdentityReader(views, Date.now, new Lenses(eventStore));
  const look = async (member: string): Promise<Read['identities'][string]> => {
    try {
      const { total_tct, incomplete } = score(await reader.snapshot(member, {}), eventStore.logId);
      const rows = await views.read([{ range: { view: 'timeline', key: member, limit: 1_000 } }]);
      const timeline = createHash('sha256').update(JSON.stringify(rows.results[0])).digest('hex').slice(0, 16);
      return { total_tct, timeline, ...(incomplete && { incomplete }) };
    } catch (error) {
      if (!(error instanceof Problem || error instanceof StoreUnavailable)) {
        result.faults.push(`${member}: ${String((error as Error).stack)}`);
        return { code: 'internal_error' };
      }
      const { code } = error;
      if (!SOON.has(code) || performance.now() > deadline) return { code };
    }
    await sleep(20);
    return look(member);
  };
  /** It may be the first that reads a damaged row; the read models are built again then. */
  const verified = async (): Promise<string> => {
    const verification = await verify(eventStore, readModels).catch((error: Error) => error);
    if (!(verification instanceof Error)) {
      if (verification.difference) return `different: ${JSON.stringify(verification.difference)}`;
      if (isIdentical(verification)) return 'identical';
      if (verification.damaged.length > 0 || performance.now() > deadline) return 'damaged';
    } else if (!(verification instanceof StoreUnavailable) || performance.now() > deadline) {
      return verification.message;
    }
    await sleep(20);
    return verified();
  };
  try {
    await projector.start();
    await views.waitForPosition(await eventStore.head(), UNTIL_MS);
    for (const member of members) result.identities[member] = await look(member);
    result.verified = await verified();
  } catch (error) {
    const sentence = sentenceOf(error);
    if (sentence === undefined) result.faults.push(`run: ${String((error as Error).stack)}`);
    else result.refused = sentence;
  } finally {
    await projector.stop();
    await closeStores(opened);
  }
  return result;
}

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line) as Asked;
  const result = await run({ ...asked, data: join(asked.data) });
  process.stdout.write(`${JSON.stringify(result)}\n`);
}
