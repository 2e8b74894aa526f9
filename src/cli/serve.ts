import type { Cli } from './cli.js';

export function serveCommand(cli: Cli): void {
  cli.program
    .command('serve')
    .description('start the server, as `npm start` does in the repository')
    .option('--example', 'fill a folder of its own with example data first; default: ./data-example')
    .action(
      cli.withConfig(async ({ io }) => {
        await io.serve!(cli.program.opts<{ data?: string }>().data);
      }),
    );
}
