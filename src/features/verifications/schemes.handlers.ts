import { Command, CommandHandler, type ICommandHandler, type IQueryHandler, Query, QueryHandler } from '@nestjs/cqrs';
import { SCHEMES, type SchemeRow } from '../../../projections/schemes.js';
import type { Fact } from '../../kernel/event-definition.js';
import type { CommandContext, Created } from '../../commands/context.js';
import { Writer } from '../../commands/writer.js';
import { refusal } from '../../kernel/problems.js';
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
import { Schemes, retired } from './schemes.js';
import { ProofVerifier } from './verifier.js';

export class RegisterScheme extends Command<Created<SchemeView>> {
  constructor(
    readonly definition: SchemeDefinition,
    readonly context: CommandContext,
  ) {
    super();
  }
}

@CommandHandler(RegisterScheme)
export class RegisterSchemeHandler implements ICommandHandler<RegisterScheme> {
  constructor(
    private readonly writer: Writer,
    private readonly schemes: Schemes,
    private readonly verifier: ProofVerifier,
  ) {}

  /** @throws Problem validation_failed, scheme_conflict, verifier_unavailable */
  async execute({ definition, context }: RegisterScheme): Promise<Created<SchemeView>> {
    const errors = [
      ...checkInputs(definition.public_inputs, definition.verification_key),
      ...checkTranscript(definition),
    ];
    if (errors.length > 0) throw refusal(errors);
    const sound = await this.verifier.checkKey(definition.verification_key, context.actor.name);
    if (typeof sound === 'object') {
      throw refusal([{ pointer: `/verification_key${sound.pointer}`, code: 'not_a_point', message: sound.message }]);
    }
    const { position, own } = await this.writer.execute(schemeStream(definition.scheme), context, (history) =>
      decideRegister(schemeOf(history), definition),
    );
    return { body: viewOf(await this.schemes.get(definition.scheme)), position, own };
  }
}

/** Adds or removes an accepted root, or retires the scheme. */
export class ChangeScheme extends Command<Created<SchemeView>> {
  constructor(
    readonly scheme: string,
    readonly change: { kind: 'add_root' | 'remove_root'; root: string } | { kind: 'retire' },
    readonly context: CommandContext,
  ) {
    super();
  }
}

@CommandHandler(ChangeScheme)
export class ChangeSchemeHandler implements ICommandHandler<ChangeScheme> {
  constructor(
    private readonly writer: Writer,
    private readonly schemes: Schemes,
  ) {}

  /** @throws Problem scheme_not_found, scheme_retired, validation_failed */
  async execute({ scheme: id, change, context }: ChangeScheme): Promise<Created<SchemeView>> {
    await this.schemes.get(id);
    const { position, own } = await this.writer.execute(schemeStream(id), context, (history) =>
      decide(schemeOf(history)!, change),
    );
    return { body: viewOf(await this.schemes.get(id)), position, own };
  }
}

function decide(scheme: Scheme, change: ChangeScheme['change']): Fact[] {
  if (change.kind === 'retire') return decideRetire(scheme);
  if (change.kind === 'remove_root') return decideRemoveRoot(scheme, change.root);
  if (scheme.retired) throw retired(scheme.scheme);
  return decideAddRoot(scheme, change.root);
}

export class GetScheme extends Query<SchemeView> {
  constructor(readonly scheme: string) {
    super();
  }
}

@QueryHandler(GetScheme)
export class GetSchemeHandler implements IQueryHandler<GetScheme> {
  constructor(private readonly schemes: Schemes) {}

  async execute({ scheme }: GetScheme): Promise<SchemeView> {
    return viewOf(await this.schemes.get(scheme));
  }
}

export class ListSchemes extends Query<{ schemes: ListedScheme[]; next_cursor: string | null }> {
  constructor(
    readonly limit: number,
    readonly cursor: string | undefined,
  ) {
    super();
  }
}

@QueryHandler(ListSchemes)
export class ListSchemesHandler implements IQueryHandler<ListSchemes> {
  constructor(private readonly views: Views) {}

  async execute({ limit, cursor }: ListSchemes) {
    const { page, next_cursor } = await this.views.page<SchemeRow>(SCHEMES, { cursor, limit }, SCHEME_ID);
    return {
      schemes: page.map(({ registered_at, ...row }) => ({
        ...row,
        registered_at: new Date(registered_at).toISOString(),
      })),
      next_cursor,
    };
  }
}

type ListedScheme = Omit<SchemeRow, 'registered_at'> & { registered_at: string };
type SchemeView = ReturnType<typeof viewOf>;

/** A scheme with everything that a prover needs. */
function viewOf(scheme: Scheme) {
  return { ...scheme, scope_value: fieldOf(scheme.scope), registered_at: new Date(scheme.registered_at).toISOString() };
}
