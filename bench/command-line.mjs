import { parseArgs } from 'node:util';

/** What a command was given. `--help` prints its usage, and wrong options one line; both end the process. */
export function commandLine(usage, options, allowPositionals = false) {
  let given;
  try {
    given = parseArgs({ options: { ...options, help: { type: 'boolean' } }, allowPositionals });
  } catch (error) {
    const [fault] = error.message.split('. ');
    wrongUsage(`${fault}; --help lists the options.`);
  }
  if (given.values.help) {
    console.log(usage);
    process.exit(0);
  }
  return given;
}

export function wrongUsage(line) {
  console.error(line);
  process.exit(2);
}
