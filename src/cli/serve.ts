import { type Cli, EXIT } from './cli.js';

export function serveCommand(cli: Cli): void {
  cli.program
    .command('serve')
    .description('start the server, as `npm start` does in the repository')
    .action(
      cli.withConfig(async ({ config }) => {
        // The server reads its configuration itself.
        process.env['CREDENCE_DATA'] = config.data;
        await import('../main.js');
        return EXIT.ok;
      }),
    );
}
