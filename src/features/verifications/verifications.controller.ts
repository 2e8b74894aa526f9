import { Body, Controller, Delete, Get, Param, Post, Query } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import { ApiResponse } from '@nestjs/swagger';
import { Written } from '../../http/answers.js';
import { Context, RequestContext } from '../../http/command-context.js';
import { PageQuery } from '../../http/common.dto.js';
import { PublicRead, Write } from '../../http/routes.js';
import { ChangeScheme, GetScheme, ListSchemes } from './schemes.handlers.js';
import {
  AddRootDto,
  RegisterSchemeDto,
  SchemeDto,
  SchemeParams,
  SchemeRootParams,
  SchemesDto,
  SubmitProofDto,
  VerificationGrantedDto,
} from './verifications.dto.js';
import { SubmitProof } from './verifications.handlers.js';

@Controller('/v1')
export class VerificationsController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  @Post('/tris/verifications')
  @Write({
    scope: 'identity:write',
    session: true,
    status: 201,
    summary: 'Verify an identity by a zero-knowledge proof',
    description: 'Takes a session of the TRIS or a key. The proof is bound to the identity. Repeating it returns 200.',
    type: VerificationGrantedDto,
    problems: [
      'scheme_not_found',
      'scheme_retired',
      'self_statement',
      'public_signal_mismatch',
      'proof_expired',
      'proof_invalid',
      'nullifier_used',
      'verification_revoked',
      'verifier_unavailable',
      'write_conflict',
    ],
  })
  @ApiResponse({
    status: 200,
    description: 'The identity already holds this verification, until then or longer',
    type: VerificationGrantedDto,
  })
  async submit(@Body() body: SubmitProofDto, @Context() request: RequestContext) {
    const result = await this.commands.execute(new SubmitProof({ submission: body, request }));
    return Written.created(result, ['v1', 'disc', 'score', result.body.tris_id]);
  }

  @Post('/verification-schemes')
  @Write({
    scope: 'ops',
    status: 201,
    summary: 'Register a verification scheme: what a proof under a verification key grants',
    description:
      'Only the roots of a scheme can change. Registering the same content again returns 200. transcript_hash binds the key to the record of its setup; it is declared, for auditors to compare.',
    type: SchemeDto,
    problems: ['scheme_conflict', 'verifier_unavailable'],
  })
  @ApiResponse({ status: 200, description: 'Already registered with this content', type: SchemeDto })
  async register(@Body() body: RegisterSchemeDto, @Context() request: RequestContext) {
    const { scheme, status, issuer, scope, transcript_hash, roots } = body;
    const { vk_alphabeta_12: _, ...verification_key } = body.verification_key;
    const public_inputs = body.public_inputs.map(({ role, value = null }) => ({ role, value }));
    const definition = { scheme, status, issuer, scope, public_inputs, verification_key, transcript_hash, roots };
    const change = { kind: 'register' as const, definition };
    const command = new ChangeScheme({ scheme, change, context: request.of(definition) });
    return Written.created(await this.commands.execute(command), ['v1', 'verification-schemes', scheme]);
  }

  @Get('/verification-schemes')
  @PublicRead({ summary: 'List verification schemes', description: 'By id, without their keys.', type: SchemesDto })
  async list(@Query() query: PageQuery) {
    return this.queries.execute(new ListSchemes(query));
  }

  @Get('/verification-schemes/:scheme')
  @PublicRead({
    summary: 'Get a verification scheme, with everything a prover needs',
    description: 'Its verification key, public inputs and accepted roots.',
    type: SchemeDto,
    problems: ['scheme_not_found'],
  })
  async get(@Param() { scheme }: SchemeParams) {
    return this.queries.execute(new GetScheme({ scheme }));
  }

  @Post('/verification-schemes/:scheme/roots')
  @Write({
    scope: 'ops',
    summary: 'Accept proofs of another root of the issuer',
    type: SchemeDto,
    problems: ['scheme_not_found', 'scheme_retired', 'write_conflict'],
  })
  async addRoot(@Param() { scheme }: SchemeParams, @Body() { root }: AddRootDto, @Context() request: RequestContext) {
    return this.change(scheme, { kind: 'add_root', root }, request);
  }

  @Delete('/verification-schemes/:scheme/roots/:root')
  @Write({
    scope: 'ops',
    summary: 'Stop accepting proofs of a root; what it granted stays',
    type: SchemeDto,
    problems: ['scheme_not_found', 'write_conflict'],
  })
  async removeRoot(@Param() { scheme, root }: SchemeRootParams, @Context() request: RequestContext) {
    return this.change(scheme, { kind: 'remove_root', root }, request);
  }

  @Post('/verification-schemes/:scheme/retire')
  @Write({
    scope: 'ops',
    summary: 'Retire a scheme: it accepts no more proofs; what it granted stays',
    type: SchemeDto,
    problems: ['scheme_not_found', 'write_conflict'],
  })
  async retire(@Param() { scheme }: SchemeParams, @Context() request: RequestContext) {
    return this.change(scheme, { kind: 'retire' }, request);
  }

  private async change(scheme: string, change: ChangeScheme['input']['change'], request: RequestContext) {
    const context = request.of({ scheme, ...change });
    return Written.of(await this.commands.execute(new ChangeScheme({ scheme, change, context })));
  }
}
