import { Cli, type CommandIo, type Hosted } from './cli.js';

/** Every command is a file here with a function that registers it. Only the file of the called one is loaded. */
const COMMANDS: { names: string[]; load: () => Promise<(cli: Cli) => void> }[] = [
  { names: ['serve'], load: async () => (await import('./serve.js')).serveCommand },
  { names: ['status'], load: async () => (await import('./status.js')).statusCommand },
  { names: ['import'], load: async () => (await import('./import.js')).importCommand },
  { names: ['export'], load: async () => (await import('./export.js')).exportCommand },
  { names: ['replay'], load: async () => (await import('./replay.js')).replayCommand },
  { names: ['verify'], load: async () => (await import('./verify.js')).verifyCommand },
  { names: ['compare'], load: async () => (await import('./compare.js')).compareCommand },
  {
    names: ['rebuild', 'swap', 'rollback', 'drop'],
    load: async () => (await import('./generations.js')).generationsCommands,
  },
  { names: ['dead-letters'], load: async () => (await import('./dead-letters.js')).deadLettersCommands },
  { names: ['backup'], load: async () => (await import('./backup.js')).backupCommand },
  { names: ['migrate'], load: async () => (await import('./migrate.js')).migrateCommand },
  { names: ['keys'], load: async () => (await import('./keys.js')).keysCommands },
  { names: ['signing-keys'], load: async () => (await import('./signing-keys.js')).signingKeysCommands },
  { names: ['access'], load: async () => (await import('./access.js')).accessCommands },
  { names: ['ap'], load: async () => (await import('./ap.js')).apCommands },
  { names: ['vp'], load: async () => (await import('./vp.js')).vpCommands },
  { names: ['policies'], load: async () => (await import('./policies.js')).policiesCommands },
  { names: ['models'], load: async () => (await import('./models.js')).modelsCommands },
  { names: ['texts'], load: async () => (await import('./texts.js')).textsCommands },
  { names: ['actions'], load: async () => (await import('./actions.js')).actionsCommands },
  { names: ['orgs'], load: async () => (await import('./orgs.js')).orgsCommands },
];

/** The program with the called command; help and an unknown one list all. @param hosted if another process calls */
export async function programFor(argv: readonly string[], io: CommandIo, hosted?: Hosted): Promise<Cli> {
  const cli = new Cli(io, hosted);
  const called = COMMANDS.filter(({ names }) => names.some((name) => argv.includes(name)));
  for (const { load } of called.length > 0 ? called : COMMANDS) (await load())(cli);
  return cli;
}
