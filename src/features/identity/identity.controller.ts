import { Body, Controller, Delete, Get, Param, Post, Query } from '@nestjs/common';
import { CommandBus } from '@nestjs/cqrs';
import { Written } from '../../http/answers.js';
import { Context, RequestContext } from '../../http/command-context.js';
import { TrisIdParams, WrittenTrisIdParams } from '../../http/common.dto.js';
import { parseTimestamp } from '../../kernel/identifiers.js';
import { Keyed, Write } from '../../http/routes.js';
import { Problem } from '../../kernel/problems.js';
import {
  FindIdentitiesQuery,
  GrantVerificationDto,
  GrantedVerificationDto,
  IdentitiesDto,
  IdentityBadStatusDto,
  RevokeVerificationQuery,
  RevokedVerificationDto,
  SetBadStatusDto,
  VerificationParams,
} from './identity.dto.js';
import { StateAboutIdentity } from './identity.handlers.js';
import { IdentitySearch } from './search.js';

@Controller('/v1/identities')
export class IdentityController {
  constructor(
    private readonly commands: CommandBus,
    private readonly search: IdentitySearch,
  ) {}

  @Get()
  @Keyed({
    scope: 'any',
    summary: 'Find identities by the beginning of their id, also after its namespace, or by a platform they own',
    description: 'A page may have fewer entries than `limit`, or none: continue until `next_cursor` is null.',
    type: IdentitiesDto,
  })
  async find(@Query() query: FindIdentitiesQuery) {
    return this.search.find(query);
  }

  @Post('/:tris_id/bad-status')
  @Write({
    scope: 'ops',
    example: { level: 3, reason_code: 'confirmed_fraud' },
    summary: 'Set an identity’s BAD status: it overrides the computed score',
    type: IdentityBadStatusDto,
    problems: ['write_conflict'],
  })
  async setBadStatus(
    @Param() { tris_id }: WrittenTrisIdParams,
    @Body() { level, reason_code }: SetBadStatusDto,
    @Context() request: RequestContext,
  ) {
    const position = await this.state(tris_id, { kind: 'set_bad_status', level, reason_code }, request);
    return new Written({ tris_id, bad_status: { level, reason_code } }, position);
  }

  @Delete('/:tris_id/bad-status')
  @Write({
    scope: 'ops',
    summary: 'Clear an identity’s BAD status',
    type: IdentityBadStatusDto,
    problems: ['write_conflict'],
  })
  async clearBadStatus(@Param() { tris_id }: TrisIdParams, @Context() request: RequestContext) {
    const position = await this.state(tris_id, { kind: 'clear_bad_status' }, request);
    return new Written({ tris_id, bad_status: null }, position);
  }

  @Post('/:tris_id/verifications')
  @Write({
    scope: 'identity:write',
    status: 201,
    example: {
      status: 'zk-KYH',
      expires_at: '2099-12-31T00:00:00Z',
      evidence_hash: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
    },
    summary: 'Grant an identity a verification status',
    type: GrantedVerificationDto,
    problems: ['self_statement', 'write_conflict'],
  })
  async grant(
    @Param() { tris_id }: WrittenTrisIdParams,
    @Body() { status, expires_at, evidence_hash }: GrantVerificationDto,
    @Context() request: RequestContext,
  ) {
    const grant = {
      status,
      issuer: request.actor.organization ?? request.actor.name,
      expires_at: expires_at === undefined ? null : new Date(parseTimestamp(expires_at)!).toISOString(),
      evidence_hash,
    };
    const position = await this.state(tris_id, { kind: 'grant', grant }, request);
    const answer = { tris_id, status, issuer: grant.issuer, scheme: 'operator', expires_at: grant.expires_at };
    return new Written(answer, position, 201, ['v1', 'disc', 'score', tris_id]);
  }

  @Delete('/:tris_id/verifications/:status')
  @Write({
    scope: 'identity:write',
    summary: 'Revoke a verification status: with an organization’s key its own grants, with an operator’s key all',
    type: RevokedVerificationDto,
    problems: ['write_conflict'],
  })
  async revoke(
    @Param() { tris_id, status }: VerificationParams,
    @Query() { issuer, scheme }: RevokeVerificationQuery,
    @Context() request: RequestContext,
  ) {
    const { organization } = request.actor;
    if (organization !== null && issuer !== undefined && issuer !== organization) {
      throw new Problem('forbidden', `The key of ${organization} cannot revoke what ${issuer} granted.`);
    }
    const grants = { status, issuer: organization ?? issuer ?? null, scheme: scheme ?? null };
    const position = await this.state(tris_id, { kind: 'revoke', grants }, request);
    return new Written({ tris_id, status, revoked: true }, position);
  }

  /** Returns the position of the written event, or of the last statement if this one changed nothing; 0: there is none. */
  private async state(trisId: string, statement: StateAboutIdentity['input']['statement'], request: RequestContext) {
    const context = request.of({ tris_id: trisId, ...statement });
    const { position } = await this.commands.execute(new StateAboutIdentity({ trisId, statement, context }));
    return position;
  }
}
