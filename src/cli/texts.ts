import { deleteText } from '../commands/kept-texts.js';
import { SHA256_HEX } from '../kernel/identifiers.js';
import type { Cli } from './cli.js';
import { CommandFailed, UsageError } from './exit.js';

export function textsCommands(cli: Cli): void {
  const texts = cli.program.command('texts').description('manage the free text that is stored outside the log');

  texts
    .command('delete')
    .description('delete a stored text, such as a title or a URI; the log contains only its hash')
    .argument('<hash>', 'SHA-256 of the text, 64 lower-case hexadecimal digits')
    .action(
      cli.withStores('existing', async ({ stores, print }, hash: string) => {
        if (!SHA256_HEX.test(hash))
          throw new UsageError(`"${hash}" is not a SHA-256 digest of 64 lower-case hexadecimal digits.`);
        if (!(await deleteText(stores.keyValue, hash)))
          throw new CommandFailed(`There is no text with the hash ${hash}.`);
        print(`deleted the text with the hash ${hash}`);
      }),
    );
}
