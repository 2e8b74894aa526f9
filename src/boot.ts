import cluster from 'node:cluster';
import { GroupMember } from './app/group-member.js';
import { sentenceOf } from './app/start-failure.js';
import { ConfigError, loadConfig } from './kernel/config.js';
import { Logger } from './kernel/logger.js';

/**
 * Starts the service in this process, or a group of processes of which this is the first. The first one loads nothing
 * that only the others need.
 */

// A log that cannot be written (its disk is full, or its reader has ended) must not end the service.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

let member: GroupMember | null = null;

/** Ends the process with the reason, in one sentence if possible, if `work` fails. */
async function orEnd<T>(work: () => T | Promise<T>, close = async (): Promise<void> => undefined): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const isConfig = error instanceof ConfigError;
    const message = (isConfig ? error.message : sentenceOf(error)) ?? String((error as Error).stack);
    const exitCode = isConfig ? 2 : 1;
    if (member) await member.refused({ message, exitCode });
    else process.stderr.write(`credence: ${message}\n`);
    // A second failure would hide the reason.
    await close().catch(() => undefined);
    process.exit(exitCode);
  }
}

const config = await orEnd(() => loadConfig());
const isOneOfSeveral = config.processes > 1;
const logger = new Logger(config.logLevel, undefined, isOneOfSeveral ? { pid: process.pid } : {});
if (isOneOfSeveral && cluster.isPrimary) {
  const { ProcessGroup } = await import('./app/process-group.js');
  await orEnd(() => new ProcessGroup(config, logger).start());
} else {
  if (isOneOfSeveral) member = new GroupMember(cluster.worker!, logger);
  const { serve, close } = await import('./serve.js');
  await orEnd(() => serve(config, logger, member), close);
}
