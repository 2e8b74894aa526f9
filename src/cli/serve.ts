import type { Cli } from './cli.js';
import { EXIT } from './exit.js';

export function serveCommand(cli: Cli): void {
  cli.program
    .command('serve')
    .description('start the server, as `npm start` does in the repository')
    .action(
      cli.withConfig(async ({ config, io }) => {
        await io.serve!(config.data);
        return EXIT.ok;
      }),
    );
}
