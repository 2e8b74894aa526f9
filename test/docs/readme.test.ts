import { runCommand } from '../servers/launch.js';
import { codes, read, section, tableRows } from './markdown.js';

/** README.md holds: its commands are the program's. tour.test.ts follows its first minute. */

const README = read('README.md');

test('every command of the program is listed', async () => {
  const { stdout: help } = await runCommand(['--help'], { CREDENCE_DATA: 'none' });
  const known = [...help.split('Commands:')[1]!.matchAll(/^ {2}([a-z-]+)/gm)].map(([, name]) => name);
  const commands = tableRows(section(README, 'Command line')).flatMap(([cell]) => codes(cell!));
  const listed = new Set(commands.map((code) => code.split(' ')[0]));
  expect(known).toContain('serve');
  expect(known.filter((name) => name !== 'help' && !listed.has(name))).toEqual([]);
});
