import { Server } from '../e2e/server.js';
import { codes, read, section, tableRows } from './markdown.js';

/** docs/monitoring.md lists every metric of ours, and none that is not served; the tests that docs/cluster.md names exist. */

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
