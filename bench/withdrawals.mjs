import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { keyOf } from './http.mjs';
import { ROOT, inTemporaryFolder, startServer } from './measure.mjs';

/** How long it takes to derive recorded decisions again without an action, as the dry run of a withdrawal does. */

const POLICY = 'AP_BENCH_V1';
const CHECKS_AT_ONCE = 100;

/**
 * @param decisions about one identity each, and as many about one identity
 * @param actions of that one identity
 * @returns seconds of both dry runs; in ms: how long the longest turn of the server in every 50 ms used the processor
 * meanwhile, ascending, and the longest that another client's look-up took
 */
export function affectedDecisions(decisions, actions) {
  return inTemporaryFolder(async (folder) => {
    const small = (n) => ({ tris_id: `tris:small-${n}`, platform_id: 'small', external_id: `${n}` });
    const large = (n) => ({ tris_id: 'tris:large', platform_id: 'large', external_id: `${n}` });
    const lines = [
      ...Array.from({ length: decisions }, (_, n) => small(n)),
      ...Array.from({ length: actions }, (_, n) => large(n)),
    ].map((action, n) => ({
      ...action,
      action_type: `loan_${n % 17}`,
      category: 'finance',
      criticality: 'High',
      occurred_at: new Date(Date.now() - (n % 700) * 86_400_000 - 60_000).toISOString(),
    }));
    const file = join(folder, 'actions.ndjson');
    await writeFile(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    const data = join(folder, 'data');
    const cli = spawn(process.execPath, [join(ROOT, 'dist/src/cli.js'), 'import', file], {
      env: { PATH: process.env.PATH, CREDENCE_DATA: data },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const [code] = await once(cli, 'exit');
    if (code !== 0) throw new Error(`import ended with ${code}`);
    const turns = join(folder, 'turns.sock');
    const env = { CREDENCE_DATA: data, TURNS_SOCKET: turns, TURNS_MOST_MS: 'Infinity' };
    const options = ['--import', join(ROOT, 'test/faults/turns.mjs')];
    const server = await startServer(join(ROOT, 'dist/src/main.js'), env, options);
    try {
      const headers = { 'content-type': 'application/json', 'x-api-key': keyOf(data) };
      const answered = async (request) => {
        const answer = await request;
        if (!answer.ok) throw new Error(`${answer.url} answers ${answer.status}: ${await answer.text()}`);
        return answer.json();
      };
      const get = (path) => answered(fetch(server.url + path, { headers }));
      const post = (path, body) =>
        answered(fetch(server.url + path, { method: 'POST', headers, body: JSON.stringify(body) }));
      await post('/v1/policies/ap', { policy_id: POLICY, rules: { all: [{ tct_min: 1 }, { reliability_min: 0.1 }] } });
      for (let from = 0; from < decisions; from += CHECKS_AT_ONCE) {
        const subject_tris = Array.from({ length: Math.min(CHECKS_AT_ONCE, decisions - from) }, (_, n) => {
          return small(from + n).tris_id;
        });
        await post('/v1/policies/ap/check/batch', { policy_id: POLICY, subject_tris });
        const ofLarge = { policy_id: POLICY, subject_tris: 'tris:large' };
        await Promise.all(subject_tris.map(() => post('/v1/policies/ap/check', ofLarge)));
      }
      const history = await get('/v1/disc/score/tris:large/history?limit=1');
      let waited = 0;
      const held = [];
      const longestTurn = async () => Number(await text(connect(turns)));
      const reviewed = async (set) => {
        const { job_id } = await post('/v1/actions/withdrawals', { ...set, reason: 'mistake', dry_run: true });
        await longestTurn();
        for (;;) {
          await sleep(50);
          held.push(await longestTurn());
          const asked = performance.now();
          await get('/v1/disc/score/tris:small-1');
          waited = Math.max(waited, performance.now() - asked);
          const { status, result, started_at, finished_at } = await get(`/v1/jobs/${job_id}`);
          if (status === 'completed') {
            if (result.decisions !== decisions) throw new Error(`${result.decisions} decisions were reviewed`);
            return (Date.parse(finished_at) - Date.parse(started_at)) / 1_000;
          }
          if (status === 'failed') throw new Error(`the dry run ${job_id} failed`);
        }
      };
      const ofSmall = await reviewed({ platform_id: 'small' });
      const ofLarge = await reviewed({ action_id: history.entries[0].event_id });
      return { ofSmall, ofLarge, held: held.sort((a, b) => a - b), waited };
    } finally {
      await server.stop();
    }
  });
}
