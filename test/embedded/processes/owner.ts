import { once } from 'node:events';
import { FolderOwned, Ownership } from '../../../src/stores/owner.js';

/** Owns the folder given until its input ends, and prints `owned`; or prints why it does not, as `{name, message}`. */
const [folder, command] = process.argv.slice(2);
const print = (line: unknown) => process.stdout.write(`${JSON.stringify(line)}\n`);
try {
  const ownership = Ownership.take(folder!, command);
  print('owned');
  await once(process.stdin.resume(), 'end');
  await ownership.close();
} catch (error) {
  const { name, message } = error as Error;
  print({ name: error instanceof FolderOwned ? 'FolderOwned' : name, message });
}
