import 'reflect-metadata';
import { EXIT } from './exit.js';
import { programFor } from './commands.js';

/** Here, since the server itself runs commands. */
async function serve(data: string | undefined): Promise<void> {
  // The server reads its configuration itself.
  if (data !== undefined) process.env['CREDENCE_DATA'] = data;
  // Unlike a command, it continues if its output cannot be written.
  process.stdout.removeAllListeners('error');
  // The server reads its own option, too, and refuses others, such as those of this command line.
  process.argv = [...process.argv.slice(0, 2), ...process.argv.filter((option) => option === '--example')];
  await import('../main.js');
}

const { env, stdin, stdout, stderr } = process;
const cli = await programFor(process.argv, { env, stdin, stdout, stderr, serve });
process.stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
  // The reader of the output may close the pipe, as `head` does. A command that does more than write goes on.
  if (code === 'EPIPE' && cli.isStreaming) process.exit(EXIT.ok);
  if (code === 'EPIPE') return;
  process.stderr.write(`credence: the output cannot be written: ${message}\n`);
  process.exit(EXIT.finding);
});
// Whoever reads what it reports may go away before the command has ended.
process.stderr.on('error', () => undefined);
await cli.run(process.argv);
process.exitCode = cli.exitCode;
