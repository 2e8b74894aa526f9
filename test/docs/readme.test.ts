import { configurationTable } from '../../src/config.js';
import { Server } from '../e2e/server.js';
import { blocks, codes, read, section, tableRows } from './markdown.js';
import { execFileSync } from 'node:child_process';

/** README.md holds: its table is the configuration's, its commands are the program's, its tour gives these answers. */

const README = read('README.md');

test('the configuration table is made from the configuration', () => {
  const [, table] = /<!-- configuration:.*-->\n([\s\S]*?)\n<!-- prettier-ignore-end -->/.exec(README)!;
  expect(table).toBe(configurationTable());
});

test('every command of the program is listed', () => {
  const help = execFileSync(process.execPath, ['dist/src/cli.js', '--help'], { encoding: 'utf8' });
  const known = [...help.split('Commands:')[1]!.matchAll(/^ {2}([a-z-]+)/gm)].map(([, name]) => name);
  const listed = tableRows(section(README, 'Command line')).flatMap(([cell]) =>
    codes(cell!).map((code) => code.split(' ')[0]),
  );
  for (const name of known) if (name !== 'help') expect(listed).toContain(name);
});

describe('the tour', () => {
  let server: Server;
  beforeAll(async () => {
    server = await Server.start();
  });
  afterAll(() => server.end());

  test('every command gives the answer that stands below it', async () => {
    let position: string | undefined;
    let answer: unknown;
    let compared = 0;
    for (const { language, text } of blocks(section(README, 'A tour'))) {
      if (language === 'sh') {
        for (const line of text.split('\n')) {
          const [command, path, body] = words(line);
          if (command !== 'get' && command !== 'post') continue;
          const headers: Record<string, string> = position === undefined ? {} : { 'credence-min-position': position };
          const key = command === 'get' ? false : undefined;
          const response = await server.send(command.toUpperCase(), path!, { key, headers, body });
          position = (response.headers['credence-position'] as string | undefined) ?? position;
          answer = response.json;
        }
      } else if (language === 'json') {
        expectLike(answer, JSON.parse(text), '');
        compared++;
      }
    }
    expect(compared).toBeGreaterThan(10);
  });
});

/** The words of a line of shell: bare ones and ones in single quotes. */
function words(line: string): string[] {
  return [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, bare]) => quoted ?? bare!);
}

/** What differs from run to run: times of recording, ids of the log and its keys, and what decays up to the present. */
const VOLATILE =
  /(^|\/)(position|recorded_at|registered_at|created_at|generated_at|checked_at|expires_at|timestamp|as_of|request_id|proof|eligibility_token|report_id|report_hash|next_cursor|reliability)$|\/(disc_metrics|payload)\//;

function expectLike(actual: unknown, documented: unknown, at: string): void {
  const where = `at ${at}: ${JSON.stringify(actual)}`;
  if (Array.isArray(documented)) {
    expect([where, (actual as unknown[]).length]).toEqual([where, documented.length]);
    documented.forEach((item, i) => expectLike((actual as unknown[])[i], item, `${at}/${i}`));
  } else if (typeof documented === 'object' && documented !== null) {
    expect([where, Object.keys(actual as object).sort()]).toEqual([where, Object.keys(documented).sort()]);
    for (const [name, value] of Object.entries(documented)) {
      expectLike((actual as Record<string, unknown>)[name], value, `${at}/${name}`);
    }
  } else if (VOLATILE.test(at)) {
    expect([where, typeof actual]).toEqual([where, typeof documented]);
  } else if (typeof documented === 'string' && documented.includes('…')) {
    expect([where, String(actual).startsWith(documented.split('…')[0]!)]).toEqual([where, true]);
  } else {
    expect([where, actual]).toEqual([where, documented]);
  }
}
