import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** `examples/otc-to-ndjson.mjs`, on the forms in which the ratings come. */

let folder: string;
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'credence-otc-'))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function actionsOf(csv: string): string {
  const file = join(folder, 'ratings.csv');
  writeFileSync(file, csv);
  return execFileSync(process.execPath, ['examples/otc-to-ndjson.mjs', file], { encoding: 'utf8', stdio: 'pipe' });
}

test('the file of SNAP, which has no head line and fractions of seconds', () => {
  const [first, ...others] = actionsOf('6,2,4,1289241911.72836\n6,5,-10,1289241941.53378\n').trimEnd().split('\n');
  expect(others).toHaveLength(1);
  expect(JSON.parse(first!)).toEqual({
    tris_id: 'tris:otc:2',
    action_type: 'trade_rating',
    category: 'social',
    criticality: 'Moderate',
    platform_id: 'bitcoin-otc',
    counterparty: 'tris:otc:6',
    occurred_at: '2010-11-08T18:45:11.000Z',
    external_id: '6-2-1289241911.72836',
  });
});

test('a head line changes nothing', () => {
  const [head, ...rows] = readFileSync('examples/bitcoin-otc-excerpt.csv', 'utf8').split('\n');
  expect(head).toBe('Source,Target,Weight,Timestamp');
  expect(actionsOf(rows.join('\n'))).toBe(actionsOf([head, ...rows].join('\n')));
});

test('a line that is no rating is named', () => {
  expect(() => actionsOf('6,2,4,1289241911\n6,2,11,1289241911\n')).toThrow('line 2 is no rating: 6,2,11,1289241911');
  expect(() => actionsOf('RATER,RATED,RATING,TIME\n')).toThrow('line 1 is no rating');
});
