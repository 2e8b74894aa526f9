import {
  type DeadLetterState,
  AcknowledgeDeadLetterDto,
  type DeadLetterDto,
  DeadLetterParams,
} from '../features/dead-letters/dead-letters.dto.js';
import { AcknowledgeDeadLetter, ListDeadLetters } from '../features/dead-letters/dead-letters.handlers.js';
import { readBody, readParams } from '../http/validation.js';
import type { Cli, JsonOption } from './cli.js';
import { UsageError } from './exit.js';
import { type HandlersContext, PAGE, allPages, commandOf, withHandlers } from './handlers.js';
import { applyAll } from './read-models.js';
import { table } from './table.js';

type ListOptions = JsonOption & { acknowledged?: boolean };
type AcknowledgeOptions = { all?: boolean; reason: string };

export function deadLettersCommands(cli: Cli): void {
  const letters = cli.program.command('dead-letters').description('list and acknowledge events that cannot be decoded');

  letters
    .command('list')
    .description('list the open dead letters')
    .option('--acknowledged', 'list the acknowledged ones instead, with who acknowledged them and why')
    .option('--json', 'print them as JSON')
    .action(withHandlers(cli, 'existing', [], list));

  letters
    .command('acknowledge')
    .description('continue permanently without these events: their identities are no longer incomplete')
    .argument('[event-ids...]', 'ids of the events')
    .option('--all', 'acknowledge all open dead letters')
    .requiredOption('--reason <code>', 'the reason, as a code of lower-case letters, digits and underscores')
    .action(withHandlers(cli, 'existing', [], acknowledge));
}

async function list({ queries, print }: HandlersContext, { acknowledged, json }: ListOptions) {
  const all = await readAll(queries, acknowledged ? 'acknowledged' : 'open');
  print(json ? JSON.stringify(all) : table(all.map(rowOf), 'no dead letters'));
}

async function acknowledge(context: HandlersContext, ids: string[], { all, reason }: AcknowledgeOptions) {
  const { actor, commands, queries, stores, config, print } = context;
  if ((ids.length === 0) === (all === undefined)) throw new UsageError('Give event ids or --all.');
  const { reason_code } = readBody(AcknowledgeDeadLetterDto, { reason_code: reason });
  const named = all ? await readAll(queries, 'open') : ids.map((id) => readParams(DeadLetterParams, { event_id: id }));
  for (const { event_id } of named) {
    const asked = { event_id, reason_code };
    const command = new AcknowledgeDeadLetter({ ...asked, context: commandOf(actor, asked) });
    const { body } = await commands.execute(command);
    const { at, by, reason_code: why } = body.acknowledged!;
    print(`${event_id} of ${body.tris_id ?? 'an unknown identity'}: acknowledged by ${by} at ${at}, ${why}`);
  }
  // So that the next look-up shows it, with or without a running server.
  await applyAll(stores, config);
  if (named.length === 0) print('no dead letters');
}

function readAll(queries: HandlersContext['queries'], state: DeadLetterState): Promise<DeadLetterDto[]> {
  return allPages('dead_letters', (cursor) => queries.execute(new ListDeadLetters({ state, limit: PAGE, cursor })));
}

function rowOf({ event_id, event_type, position, tris_id, reason, acknowledged }: DeadLetterDto) {
  return {
    position: position.slice(position.lastIndexOf('.') + 1),
    event: event_id,
    type: event_type,
    identity: tris_id ?? '-',
    ...(acknowledged
      ? { acknowledged: acknowledged.at, by: acknowledged.by, why: acknowledged.reason_code }
      : { reason }),
  };
}
