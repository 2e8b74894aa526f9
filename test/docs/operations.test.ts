import { readdirSync } from 'node:fs';
import { PROJECTIONS } from '../../src/read-side/all-projections.js';
import { Server } from '../e2e/server.js';
import { codes, read, section, tableRows } from './markdown.js';

/** What the documents for operators list is what there is. */

test('every metric', async () => {
  const server = await Server.start();
  const { text } = await server.send('GET', '/metrics').finally(() => server.end());
  const served = [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name, type]) => `${name} ${type}`);
  const own = served.filter((name) => !/^(process|nodejs)_/.test(name));
  const rows = tableRows(section(read('docs/monitoring.md'), 'Metrics')).filter(([, type]) => type !== '');
  expect(rows.map(([name, type]) => `${codes(name!)[0]} ${type}`).sort()).toEqual(own.sort());
});

test('every fault of the cluster profile has the tests that its row names', () => {
  const faults = read('docs/cluster.md').split('**Faults**')[1]!;
  const named = tableRows(faults).flatMap((cells) => cells.at(-1)!.split(/; (?=`)/));
  const missing = named.filter((text) => {
    const [, file, titles = ''] = /^`(test\/\S+)`(?:: (.*))?$/.exec(text)!;
    const code = read(file!);
    return !titles.split('; ').every((title) => code.includes(title.replace(/…/, '').trim()));
  });
  expect(named.length).toBeGreaterThan(15);
  expect(missing).toEqual([]);
});

test('what commands print names as many views as there are', () => {
  const printed = ['docs/generations.md', 'docs/runbook.md'].flatMap((file) => [
    ...read(file).matchAll(/all (\d+) views/g),
  ]);
  expect(printed.length).toBeGreaterThan(2);
  expect([...new Set(printed.map(([, views]) => Number(views)))]).toEqual([PROJECTIONS.length]);
});

test('the table of migrations is made again with all that this build has', () => {
  const [last] = readdirSync('src/stores/postgres/migrations').sort().reverse();
  expect(section(read('docs/runbook.md'), 'The table of migrations is gone')).toContain(
    `generate_series(1, ${Number(last!.slice(0, 4))})`,
  );
});
