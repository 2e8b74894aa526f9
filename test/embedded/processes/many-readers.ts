import { open } from 'lmdb';

/** Holds read transactions of a folder until no other fits, prints `full` and waits. */
const root = open({ path: process.argv[2]!, noSubdir: false, overlappingSync: false });
const held: object[] = [];
try {
  for (;;) {
    root.resetReadTxn();
    const transaction = root.useReadTransaction();
    root.get('nothing', { transaction });
    held.push(transaction);
    // A reader of its own is taken only where there is something new to see.
    await root.put('written', held.length);
  }
} catch (error) {
  if ((error as { code?: number }).code !== -30790) throw error;
}
process.stdout.write('"full"\n');
setInterval(() => held, 1_000);
