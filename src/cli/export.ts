import { createWriteStream } from 'node:fs';
import { once } from 'node:events';
import { exportEvents } from '../stores/transfer.js';
import { decodeEvent } from '../../projections/events.js';
import type { RecordedEvent } from '../kernel/event.js';
import { TRIS_ID } from '../kernel/identifiers.js';
import { type Cli, EXIT, UsageError } from './cli.js';
import { count, duration } from './progress.js';

export function exportCommand(cli: Cli): void {
  cli.program
    .command('export')
    .description('write the events of the log, or those about one identity, as NDJSON; credence import reads it back')
    .argument('[tris]', 'only what is about this identity')
    .option('--out <file>', 'write to a file instead of standard output')
    .action(
      cli.withStores('existing', async (context, tris: string | undefined, { out }: { out?: string }) => {
        if (tris !== undefined && !TRIS_ID.test(tris)) throw new UsageError(`${tris} is not a TRIS id.`);
        const { eventStore } = context.stores;
        const started = performance.now();
        const total = await eventStore.countAfter(0);
        const bar = context.progress('Exporting', 'events');
        const target = out === undefined ? process.stdout : createWriteStream(out, { mode: 0o600 });
        let written = 0;
        try {
          for await (const event of exportEvents(eventStore, tris === undefined ? undefined : isAbout(tris))) {
            if (!target.write(`${JSON.stringify(event)}\n`)) await once(target, 'drain');
            written++;
            bar.update(tris === undefined ? written : event.position, total);
          }
          if (out !== undefined) await new Promise<void>((resolve) => target.end(resolve));
        } finally {
          bar.stop();
        }
        context.note(`${count(written)} events in ${duration((performance.now() - started) / 1000)}`);
        return EXIT.ok;
      }),
    );
}

/** Is it about this identity, as its subject or as the receiver of a credonation? */
function isAbout(tris: string): (event: RecordedEvent) => boolean {
  return (recorded) => {
    const { data } = decodeEvent(recorded) as { data: { tris_id?: string | null; tris_org?: string } };
    return data.tris_id === tris || data.tris_org === tris;
  };
}
