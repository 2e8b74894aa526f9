import { Inject } from '@nestjs/common';
import { CommandHandler, type ICommandHandler, type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import { SCHEMES, type SchemeRow } from '../../../projections/schemes.js';
import type { Fact } from '../../kernel/event-definition.js';
import type { Actor, CommandContext, Created } from '../../commands/context.js';
import { CommandWith, QueryWith } from '../../commands/messages.js';
import { Writer } from '../../commands/writer.js';
import { Problem, refusal, refusalOf } from '../../kernel/problems.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { Views } from '../../read-side/views.js';
import { fieldOf } from './domain/proof-format.js';
import {
  SCHEME_ID,
  type Scheme,
  type SchemeDefinition,
  checkInputs,
  checkTranscript,
  decideAddRoot,
  decideRegister,
  decideRemoveRoot,
  decideRetire,
  schemeOf,
  schemeStream,
} from './domain/scheme.js';
import type { SchemeDto, SchemesDto } from './verifications.dto.js';
import { ProofVerifier } from './verifier.js';

export class GetScheme extends QueryWith<{ scheme: string }, SchemeDto> {}

/** Schemes by id, each read from its own stream, so always current. */
@QueryHandler(GetScheme)
export class Schemes implements IQueryHandler<GetScheme> {
  constructor(@Inject(EVENT_STORE) private readonly store: EventStore) {}

  /** @throws Problem scheme_not_found */
  async get(id: string): Promise<Scheme> {
    const scheme = schemeOf(await this.store.readStream(schemeStream(id)));
    if (!scheme) throw new Problem('scheme_not_found', `There is no verification scheme ${id}.`);
    return scheme;
  }

  async execute({ input: { scheme } }: GetScheme): Promise<SchemeDto> {
    return viewOf(await this.get(scheme));
  }
}

type SchemeChange =
  | { kind: 'register'; definition: SchemeDefinition }
  | { kind: 'add_root' | 'remove_root'; root: string }
  | { kind: 'retire' };

/** Registers a scheme, adds or removes an accepted root, or retires the scheme. */
export class ChangeScheme extends CommandWith<
  { scheme: string; change: SchemeChange; context: CommandContext },
  Created<SchemeDto>
> {}

@CommandHandler(ChangeScheme)
export class ChangeSchemeHandler implements ICommandHandler<ChangeScheme> {
  constructor(
    private readonly writer: Writer,
    private readonly schemes: Schemes,
    private readonly verifier: ProofVerifier,
  ) {}

  /** @throws Problem scheme_not_found, scheme_retired, validation_failed, scheme_conflict, verifier_unavailable */
  async execute({ input: { scheme: id, change, context } }: ChangeScheme): Promise<Created<SchemeDto>> {
    if (change.kind === 'register') await this.refuseUnsound(change.definition, context.actor);
    else await this.schemes.get(id);
    const { position, own } = await this.writer.execute(schemeStream(id), context, (history) =>
      decide(schemeOf(history), change),
    );
    return { body: viewOf(await this.schemes.get(id)), position, own };
  }

  private async refuseUnsound(definition: SchemeDefinition, { name }: Actor): Promise<void> {
    const errors = [...checkInputs(definition), ...checkTranscript(definition)];
    if (errors.length > 0) throw refusal(errors);
    const sound = await this.verifier.checkKey(definition.verification_key, name);
    if (typeof sound === 'object') throw refusalOf(`/verification_key${sound.pointer}`, 'not_a_point', sound.message);
  }
}

/** @param scheme undefined only if it is to be registered */
function decide(scheme: Scheme | undefined, change: SchemeChange): Fact[] {
  if (change.kind === 'register') return decideRegister(scheme, change.definition);
  if (change.kind === 'retire') return decideRetire(scheme!);
  if (change.kind === 'remove_root') return decideRemoveRoot(scheme!, change.root);
  if (scheme!.retired) throw retired(scheme!.scheme);
  return decideAddRoot(scheme!, change.root);
}

/** The schemes of proofs, by id. */
export class ListSchemes extends QueryWith<{ limit: number; cursor?: string }, SchemesDto> {}

@QueryHandler(ListSchemes)
export class ListSchemesHandler implements IQueryHandler<ListSchemes> {
  constructor(private readonly views: Views) {}

  async execute({ input: { limit, cursor } }: ListSchemes) {
    const { page, next_cursor } = await this.views.page<SchemeRow>(SCHEMES, { cursor, limit }, SCHEME_ID);
    return {
      schemes: page.map(({ registered_at: at, ...row }) => ({ ...row, registered_at: new Date(at).toISOString() })),
      next_cursor,
    };
  }
}

/** A scheme with everything that a prover needs. */
function viewOf(scheme: Scheme): SchemeDto {
  return { ...scheme, scope_value: fieldOf(scheme.scope), registered_at: new Date(scheme.registered_at).toISOString() };
}

export const retired = (scheme: string): Problem =>
  new Problem('scheme_retired', `The verification scheme ${scheme} is retired.`);
