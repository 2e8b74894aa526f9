#!/usr/bin/env node
import 'reflect-metadata';
import { Cli } from './cli/cli.js';

/** Every command is a file in `cli/` with a function that registers it; only the file that is called is loaded. */
const COMMANDS: { names: string[]; load: () => Promise<(cli: Cli) => void> }[] = [
  { names: ['status'], load: async () => (await import('./cli/status.js')).statusCommand },
  { names: ['import'], load: async () => (await import('./cli/import.js')).importCommand },
  { names: ['export'], load: async () => (await import('./cli/export.js')).exportCommand },
  { names: ['replay'], load: async () => (await import('./cli/replay.js')).replayCommand },
  { names: ['verify'], load: async () => (await import('./cli/verify.js')).verifyCommand },
  {
    names: ['rebuild', 'swap', 'rollback', 'drop'],
    load: async () => (await import('./cli/generations.js')).generationsCommands,
  },
  { names: ['dead-letters'], load: async () => (await import('./cli/dead-letters.js')).deadLettersCommands },
  { names: ['backup'], load: async () => (await import('./cli/backup.js')).backupCommand },
  { names: ['migrate'], load: async () => (await import('./cli/migrate.js')).migrateCommand },
  { names: ['keys'], load: async () => (await import('./cli/keys.js')).keysCommands },
  { names: ['signing-keys'], load: async () => (await import('./cli/signing-keys.js')).signingKeysCommands },
  { names: ['access'], load: async () => (await import('./cli/access.js')).accessCommands },
  { names: ['vp'], load: async () => (await import('./cli/vp.js')).vpCommands },
  { names: ['orgs'], load: async () => (await import('./cli/orgs.js')).orgsCommands },
];

const cli = new Cli();
const called = COMMANDS.filter(({ names }) => names.some((name) => process.argv.includes(name)));
// Help and an unknown command list them all.
for (const { load } of called.length > 0 ? called : COMMANDS) (await load())(cli);
await cli.run(process.argv);
