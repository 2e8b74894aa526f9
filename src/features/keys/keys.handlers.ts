import { CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { type Actor, refuseUnlessAccepted } from '../../commands/context.js';
import { CommandWith } from '../../commands/messages.js';
import { ApiKeys } from '../../credentials/api-keys.js';
import { Writer } from '../../commands/writer.js';
import { keyStream } from './domain/key.js';
import { Logger } from '../../kernel/logger.js';
import { Problem, refusalOf } from '../../kernel/problems.js';
import type { CreatedKeyDto, CreateKeyDto } from './keys.dto.js';

/** Creates a key. */
export class CreateKey extends CommandWith<CreateKeyDto & { actor: Actor }, CreatedKeyDto> {}

@CommandHandler(CreateKey)
export class CreateKeyHandler implements ICommandHandler<CreateKey> {
  constructor(
    private readonly keys: ApiKeys,
    private readonly writer: Writer,
    private readonly logger: Logger,
  ) {}

  /** @throws Problem forbidden, validation_failed, key_conflict, keys_read_only */
  async execute({ input: { key_id, scopes, organization, actor } }: CreateKey): Promise<CreatedKeyDto> {
    // Every key may read.
    const lacking = scopes.filter((scope) => scope !== 'reads' && !actor.scopes.has(scope));
    if (lacking.length > 0) {
      const detail = `The key of this request lacks ${lacking.join(', ')} itself and cannot give it to another key.`;
      throw new Problem('forbidden', detail);
    }
    if (organization !== undefined && scopes.includes('ops')) {
      throw refusalOf('/scopes', 'scope_of_operators', 'the scope ops is for keys that are bound to no organization');
    }
    const record = { id: key_id, scopes, ...(organization !== undefined && { organization }) };
    if (await this.writer.firstOf(keyStream(key_id))) {
      throw new Problem('key_conflict', `There was a key with the id "${key_id}": choose an id that no key has had.`);
    }
    const key = await this.keys.create(record, actor.name, () => refuseUnlessAccepted(actor));
    this.logger.info('API key created', { id: key_id, by: actor.name });
    return { key_id, scopes, organization: organization ?? null, is_development: false, key };
  }
}

/** Deletes a key: it is refused from now on. */
export class DeleteKey extends CommandWith<{ key_id: string; actor: Actor }, void> {}

@CommandHandler(DeleteKey)
export class DeleteKeyHandler implements ICommandHandler<DeleteKey> {
  constructor(
    private readonly keys: ApiKeys,
    private readonly logger: Logger,
  ) {}

  /** @throws Problem key_not_found, forbidden, key_in_use, keys_read_only */
  async execute({ input: { key_id, actor } }: DeleteKey): Promise<void> {
    if (actor.name === `key:${key_id}`) {
      throw new Problem('key_in_use', 'A key cannot delete itself: use another key with the scope ops.');
    }
    await this.keys.delete(key_id, actor.scopes, actor.name, () => refuseUnlessAccepted(actor));
    this.logger.info('API key deleted', { id: key_id, by: actor.name });
  }
}
