import { sentenceOf } from './app/start-failure.js';
import { ConfigError, loadConfig } from './kernel/config.js';
import { Logger } from './kernel/logger.js';

/** Starts the service. An invalid configuration is reported before anything else is loaded. */

// A log that cannot be written (its disk is full, or its reader has ended) must not end the service.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

// Until it serves. As process 1 of a container it would ignore a signal that has no listener, and be killed in the end.
for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => process.exit(0));

/** Ends the process with the reason, in one sentence if possible, if `work` fails. */
async function orEnd<T>(work: () => T | Promise<T>, close = async (): Promise<void> => undefined): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const isConfig = error instanceof ConfigError;
    const message = (isConfig ? error.message : sentenceOf(error)) ?? String((error as Error).stack);
    process.stderr.write(`credence: ${message}\n`);
    // A second failure would hide the reason.
    await close().catch(() => undefined);
    process.exit(isConfig ? 2 : 1);
  }
}

/** Of `npm start`; `credence serve` has read its own. */
const options = process.argv.slice(2);
const isExample = options.includes('--example');
const unknown = options.find((option) => option !== '--example');
const env = isExample
  ? { ...process.env, CREDENCE_DATA: process.env['CREDENCE_DATA'] || './data-example' }
  : process.env;
const config = await orEnd(() => {
  if (unknown === undefined) return loadConfig(env);
  throw new ConfigError(`The server has no option ${unknown}, only --example: set variables such as CREDENCE_DATA.`);
});
const logger = new Logger(config.logLevel);
const { serve, close } = await import('./serve.js');
await orEnd(() => serve(config, logger, isExample), close);
