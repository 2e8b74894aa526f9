import 'reflect-metadata';
import { EXIT } from './cli.js';
import { programFor } from './commands.js';

const cli = await programFor(process.argv, process);
process.stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
  // The reader of the output may close the pipe, as `head` does.
  if (code === 'EPIPE') process.exit(cli.exitCode);
  process.stderr.write(`credence: the output cannot be written: ${message}\n`);
  process.exit(EXIT.finding);
});
await cli.run(process.argv);
process.exitCode = cli.exitCode;
