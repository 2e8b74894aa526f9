import { Body, Controller, Get, Post } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import { Written } from '../../http/answers.js';
import { Context, RequestContext } from '../../http/command-context.js';
import { PublicRead, Write } from '../../http/routes.js';
import { refusalOf } from '../../kernel/problems.js';
import {
  EligibilityDto,
  RevokeEligibilityDto,
  RevokedEligibilityDto,
  VerifyEligibilityDto,
  VoucherIssuersDto,
} from './eligibility.dto.js';
import { RevokeEligibility, VerifyEligibility } from './eligibility.handlers.js';
import { EligibilityTokens } from './tokens.js';
import { Vouchers } from './vouchers.js';

const TOKEN = 'eyJhbGciOiJFZERTQSIsInR5cCI6ImVsaWdpYmlsaXR5K2p3dCJ9.eyJqdGkiOiIuLi4ifQ.c2lnbmF0dXJl';

@Controller('/v1/eligibility')
export class EligibilityController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
    private readonly tokens: EligibilityTokens,
    private readonly vouchers: Vouchers,
  ) {}

  @Post('/verify')
  @PublicRead({
    audience: 'verifier',
    example: { token: TOKEN, policy_id: 'AP_BORROW_V1' },
    summary: 'Check whether an eligibility token is valid now',
    description: 'Also checks whether it was revoked, which a verifier without access to the service cannot do.',
    type: EligibilityDto,
  })
  async verify(@Body() body: VerifyEligibilityDto) {
    return this.queries.execute(new VerifyEligibility(body));
  }

  @Post('/revoke')
  @Write({
    scope: 'access:check',
    summary: 'Revoke an eligibility token',
    needsBody: true,
    type: RevokedEligibilityDto,
    problems: ['not_found', 'write_conflict'],
  })
  async revoke(@Body() body: RevokeEligibilityDto, @Context() request: RequestContext) {
    const jti = this.jtiOf(body);
    const context = request.of({ jti, revoked: true });
    return Written.of(await this.commands.execute(new RevokeEligibility({ jti, context })));
  }

  @Get('/issuers')
  @PublicRead({
    audience: 'verifier',
    summary: 'List the addresses that sign vouchers, for contracts to trust, and the type they sign',
    description: 'A contract accepts a voucher if one of them signed it.',
    type: VoucherIssuersDto,
  })
  issuers(): VoucherIssuersDto {
    return this.vouchers.issuers();
  }

  /** @throws Problem validation_failed */
  private jtiOf({ token, jti }: RevokeEligibilityDto): string {
    if ((token === undefined) === (jti === undefined)) {
      throw refusalOf('', 'exclusive', 'send either the token or its jti');
    }
    if (jti !== undefined) return jti;
    // The signature is enough: an expired token, or one for another audience, can be revoked too.
    const verification = this.tokens.verify(token!, {});
    if (verification.claims) return verification.claims.jti;
    const { detail } = verification as { detail: string };
    throw refusalOf('/token', 'eligibility_token', detail);
  }
}
