import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { Cli, type Context } from '../../src/cli/cli.js';

/** Runs a command of its own on a folder. @returns what it wrote to standard error */
async function run(data: string, work: (context: Context) => void): Promise<string> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const cli = new Cli({ env: { CREDENCE_DATA: data }, stdin: Readable.from([]), stdout, stderr });
  cli.program.command('try').action(cli.withFolder('create', async (context) => work(context)));
  await cli.run(['node', 'credence', 'try']);
  stderr.end();
  return text(stderr);
}

describe('what a command does at its end', () => {
  let data: string;
  beforeEach(async () => void (data = await mkdtemp(join(tmpdir(), 'credence-endings-'))));
  afterEach(() => rm(data, { recursive: true, force: true }));

  test('is done in reverse order, all of it although a part fails, and the folder is free then', async () => {
    const done: string[] = [];
    const errors = await run(data, ({ atEnd }) => {
      atEnd(() => done.push('first'));
      atEnd(() => {
        throw new Error('this could not be closed');
      });
      atEnd(async () => done.push('last'));
    });
    expect(done).toEqual(['last', 'first']);
    expect(errors).toContain('this could not be closed');
    // Otherwise this would be refused, or wait.
    expect(await run(data, () => undefined)).toBe('');
  });

  test('is done after an error of the command, too, which is the one that is told', async () => {
    const done: string[] = [];
    const errors = await run(data, ({ atEnd }) => {
      atEnd(() => done.push('only'));
      throw new Error('the command failed');
    });
    expect(done).toEqual(['only']);
    expect(errors).toContain('the command failed');
  });
});
