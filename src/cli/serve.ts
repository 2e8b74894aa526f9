import { type Cli, EXIT } from './cli.js';

export function serveCommand(cli: Cli): void {
  cli.program
    .command('serve')
    .description('start the server, as `npm start` does in the repository')
    .action(
      cli.withConfig(async ({ config }) => {
        // The server reads its configuration itself.
        process.env['CREDENCE_DATA'] = config.data;
        // Unlike a command, it continues if its output cannot be written.
        process.stdout.removeAllListeners('error');
        await import('../main.js');
        return EXIT.ok;
      }),
    );
}
