import type { ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Ledger } from '../e2e/ledger.js';
import { ACTION, Server } from '../e2e/server.js';
import { type Ran, ended, spawnCommand } from '../servers/launch.js';
import { Progress, SEED, credence, limit, randomFrom, repeated, verified } from './faults.js';

/**
 * Rounds of a server that is written to and read from, an import, a backup, and a rebuild that swaps or an older
 * generation that is dropped, all at once, until kill -9 hits some of them. Then: nothing acknowledged is lost, nothing
 * is there twice, what was interrupted can be finished, a copy is whole or not there, and the read models are what the
 * log says.
 */

/** A round for each choice of victims. */
const ROUNDS = repeated(1, 4);
const IMPORTED = 160;

const random = randomFrom(SEED);
const below = (n: number) => Math.floor(random() * n);

let folder: string;
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), 'credence-kill-'))));
afterAll(() => rm(folder, { recursive: true, force: true }));

interface Generation {
  id: string;
  serves: string[];
}
const generations = async (data: string): Promise<Generation[]> =>
  JSON.parse((await credence(data, 'status', '--json')).stdout).generations;

/** A command that may be killed. */
function command(data: string, ...args: string[]): { child: ChildProcess; ended: Promise<Ran> } {
  const child = spawnCommand(args, { CREDENCE_DATA: data });
  return { child, ended: ended(child) };
}

/** The score by the version of the model without a limit per day, so that the TCT counts the actions. */
const uncapped = (tris_id: string) => `/v1/disc/score/${tris_id}?model=disc-1`;

/** Writes to an identity of its own and reads it back: whatever happens beside it, a read that waits for a write sees it. */
class Reader {
  sent = 0;
  acknowledged = 0;

  constructor(readonly tris_id: string) {}

  async run(server: Server, done: () => boolean): Promise<void> {
    while (!done()) {
      this.sent++;
      const written = await server.relay({ tris_id: this.tris_id }).catch(() => undefined);
      if (written?.status !== 202) return;
      this.acknowledged++;
      const path = uncapped(this.tris_id);
      const seen = await server.getAfter(written, path).catch(() => undefined);
      if (!seen) return;
      if (seen.status === 200) expect(seen.json.total_tct).toBe(100 * this.acknowledged);
      else if (seen.status !== 503) throw new Error(`${written.headers['credence-position']}: ${seen.text}`);
    }
  }

  async check(server: Server): Promise<number> {
    const { status, json } = await server.get(uncapped(this.tris_id));
    if (status === 404 && this.acknowledged === 0) return 0;
    // The last action may have been recorded without its answer arriving.
    expect([100 * this.acknowledged, 100 * this.sent]).toContain(json.total_tct);
    return json.total_tct;
  }
}

test(
  `${ROUNDS} rounds of kill -9`,
  async () => {
    const data = join(folder, 'data');
    const totals = new Map<string, number>();
    const count = { acknowledged: 0, imported: 0, importsFinished: 0, killedCommands: 0, copies: 0, rebuilds: 0 };
    const progress = new Progress('kill -9', ROUNDS);
    let server = await Server.start({ data });

    for (let round = 0; round < ROUNDS; round++) {
      const what = `round ${round}, seed ${SEED}`;
      const ledger = new Ledger(`r${round}`);
      const file = join(folder, 'import.ndjson');
      const lines = Array.from({ length: IMPORTED }, (_, n) =>
        JSON.stringify({ ...ACTION, tris_id: ledger.identities[n % 8], external_id: `r${round}-i-${n}` }),
      );
      await writeFile(file, lines.join('\n'));

      let over = false;
      const load = Array.from({ length: 12 }, () => ledger.write(server));
      const reader = new Reader(`tris:r${round}-reader`);
      const reading = reader.run(server, () => over);
      const copy = join(folder, `copy-${round}`);
      const commands = [
        command(data, 'import', file),
        command(data, 'backup', copy),
        command(data, 'rebuild', ['all', 'timeline', 'identities'][below(3)]!, '--swap'),
      ];
      if (round % 4 === 1) commands.push(command(data, 'rollback'));
      // Not so many that the commands have ended by then.
      await ledger.acknowledges(20 + below(500));
      over = true;

      const victims = round % 4; // 0, 1: everything; 2: the server only; 3: a command, and the server later
      if (victims !== 2) {
        for (const { child } of victims === 3 ? [commands[below(3)]!] : commands) child.kill('SIGKILL');
        count.killedCommands++;
      }
      if (victims === 3) await ledger.acknowledges(below(200));
      await server.kill();
      const ran = await Promise.all(commands.map(({ ended }) => ended));
      await Promise.all([...load, reading]);

      server = await Server.start({ data });
      if (ran[0]!.code !== 0) {
        const again = await credence(data, 'import', file, '--json');
        if (again.code !== 0) throw new Error(`${what}: ${again.stdout}${again.stderr}`);
        const { recorded, already_present } = JSON.parse(again.stdout);
        expect([what, recorded + already_present]).toEqual([what, IMPORTED]);
        count.importsFinished++;
      }
      if (existsSync(copy)) {
        await verified(copy, '--index');
        await rm(copy, { recursive: true });
        count.copies++;
      }
      for (const tris_id of ledger.identities) ledger.elsewhere.set(tris_id, IMPORTED / 8);
      count.acknowledged += ledger.acknowledged;
      count.imported += IMPORTED;
      await ledger.expectHistories(server, await ledger.retryAll(server));
      // What the kills left behind, and then what is built from it. Each looks at all of the log again.
      if (round % 4 === 3 || round === ROUNDS - 1) {
        await verified(data);
        const built = await credence(data, 'rebuild', 'all', '--swap');
        if (built.code !== 0) throw new Error(`${what}: ${built.stderr}`);
        count.rebuilds++;
        for (const { id, serves } of await generations(data)) {
          if (serves.length > 0) continue;
          const { code, stderr } = await credence(data, 'drop', id);
          // The server drops the oldest itself.
          if (code !== 0) expect(stderr).toMatch(`There is no generation ${id}`);
        }
        await verified(data);
      }
      for (const tris_id of ledger.identities)
        totals.set(tris_id, (await server.get(uncapped(tris_id))).json.total_tct);
      totals.set(reader.tris_id, await reader.check(server));
      expect(server.errors.join('')).not.toContain('"level":"error"');
      progress.step();
    }
    for (const [tris_id, total] of totals) {
      expect((await server.get(uncapped(tris_id))).json.total_tct ?? 0).toBe(total);
    }
    expect(await server.stop()).toBe(0);
    progress.end(JSON.stringify(count));
  },
  limit(600_000),
);
