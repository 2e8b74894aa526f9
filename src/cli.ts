#!/usr/bin/env node
import 'reflect-metadata';
import { programFor } from './cli/commands.js';

const cli = await programFor(process.argv, process);
// The reader of the output may close the pipe, as `head` does.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(cli.exitCode);
  throw error;
});
await cli.run(process.argv);
process.exitCode = cli.exitCode;
