import { read, section, tableRows } from './markdown.js';

/** docs/benchmarks.md: a table whose rows are of two runs contradicts itself. */

const figure = (cell: string | undefined) => Number(cell!.replaceAll(',', '').replace('×', ''));

test.each(['Appends', 'Import', 'Rebuild'])('the ratios of the growth of %s follow from its rates', (heading) => {
  const rows = tableRows(section(read('docs/benchmarks.md'), heading));
  const rateOf = (name: string) => rows.find(([what]) => what!.startsWith(`${name}, `) && what!.endsWith('/s'))!;
  const ours = rateOf('ours').slice(1).map(figure);
  let compared = 0;
  for (const [what, ...ratios] of rows) {
    const [, peer] = /^ours beside (.+)$/.exec(what!) ?? [];
    if (peer === undefined) continue;
    const others = peer === 'the first column' ? ours.map(() => ours[0]!) : rateOf(peer).slice(1).map(figure);
    const expected = ours.map((rate, n) => `${(rate / others[n]!).toFixed(2)}×`);
    expect([what, ...ratios]).toEqual([what, ...expected]);
    compared++;
  }
  expect(compared).toBeGreaterThan(1);
});
