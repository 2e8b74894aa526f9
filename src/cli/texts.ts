import { deleteText } from '../commands/kept-texts.js';
import { SHA256_HEX } from '../kernel/identifiers.js';
import { type Cli, CommandFailed, EXIT, UsageError } from './cli.js';

export function textsCommands(cli: Cli): void {
  const texts = cli.program.command('texts').description('the free text that is kept beside the log');

  texts
    .command('delete')
    .description('delete a title or an address that is kept under its SHA-256; the log holds the hash alone')
    .argument('<hash>', 'SHA-256 of the text, 64 small hexadecimal digits')
    .action(
      cli.withStores('existing', async ({ stores, print }, hash: string) => {
        if (!SHA256_HEX.test(hash)) throw new UsageError(`"${hash}" is not a SHA-256: 64 small hexadecimal digits.`);
        if (!(await deleteText(stores.keyValue, hash))) throw new CommandFailed(`No text is kept under ${hash}.`);
        print(`deleted the text of ${hash}`);
        return EXIT.ok;
      }),
    );
}
