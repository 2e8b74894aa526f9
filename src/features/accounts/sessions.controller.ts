import { Body, Controller, Inject, Post, Req } from '@nestjs/common';
import { CommandBus } from '@nestjs/cqrs';
import { getAddress } from 'ethers/address';
import type { FastifyRequest } from 'fastify';
import { Written } from '../../http/answers.js';
import { type RequestLimit, requestLimit } from '../../http/rate-limit.js';
import { PublicWrite } from '../../http/routes.js';
import { Config } from '../../kernel/config.js';
import { refusalOf } from '../../kernel/problems.js';
import { KEY_VALUE, type KeyValue } from '../../stores/ports/key-value.js';
import { RevokeSession } from './refresh-families.js';
import {
  ChallengeDto,
  RefreshTokenDto,
  RevokedDto,
  SessionsEndedDto,
  SIGNED_MESSAGE_PROBLEMS,
  SignedMessageDto,
  StartSignInDto,
  TokensDto,
} from './sessions.dto.js';
import { StartSignIn } from './challenges.js';
import { EndOwnSessions, RefreshSession, SignIn } from './sessions.handlers.js';
import { ownTris } from './domain/wallet.js';
import { type ChallengeRequest, isClaim } from './siwe.js';

/** Requests of the general limit for one claim: anybody can make wallets, and each claim stays in the log. */
const REQUESTS_PER_CLAIM = 20;

@Controller('/v1/tris')
export class SessionsController {
  private readonly claims: RequestLimit | undefined;

  constructor(
    private readonly commands: CommandBus,
    @Inject(Config) config: Config,
    @Inject(KEY_VALUE) keyValue: KeyValue,
  ) {
    this.claims = requestLimit(config, Math.ceil(config.rateLimit / REQUESTS_PER_CLAIM), keyValue, 'claims');
  }

  @Post('/auth/siwe/start')
  @PublicWrite({
    example: { address: '0x9d85ca56217d2bb651b00f15e694eb7e713637d4', chain_id: 1 },
    summary: 'Start a wallet sign-in: returns the message to sign (EIP-4361)',
    description: 'The message is valid for ten minutes.',
    type: ChallengeDto,
  })
  async start(@Body() body: StartSignInDto) {
    return new Written(await this.commands.execute(new StartSignIn(challengeRequestOf(body))), null);
  }

  @Post('/auth/siwe/verify')
  @PublicWrite({
    summary: 'Complete a wallet sign-in: exchanges the signed message for a session',
    description: 'A message can be used once, whether or not its signature is valid.',
    type: TokensDto,
    problems: [...SIGNED_MESSAGE_PROBLEMS, 'siwe_claim'],
  })
  async verify(@Body() { message, signature }: SignedMessageDto, @Req() request: FastifyRequest) {
    if (isClaim(message)) await this.claims?.take(request.ip);
    const command = new SignIn({ signed: { message, signature }, correlationId: request.id });
    const { tokens, position } = await this.commands.execute(command);
    return new Written(tokens, position);
  }

  @Post('/token/refresh')
  @PublicWrite({
    summary: 'Exchange a refresh token for a new one and an access token',
    description:
      'The same token sent again within 15 seconds gets the same new refresh token; sent later it ends the session. A ' +
      'contract wallet is asked again whether it accepts the signature of the sign-in.',
    type: TokensDto,
    problems: ['refresh_unknown', 'refresh_reused', 'refresh_revoked', 'chain_not_configured', 'chain_unavailable'],
  })
  async refresh(@Body() { refresh_token }: RefreshTokenDto, @Req() { id }: FastifyRequest) {
    const command = new RefreshSession({ refreshToken: refresh_token, correlationId: id });
    return new Written(await this.commands.execute(command), null);
  }

  @Post('/token/revoke')
  @PublicWrite({
    example: { refresh_token: 'zR1Cb1u6mYcUuIYyW0hS3m0lZr2mVb3uT2nJrWq8P4s' },
    summary: 'End the session of a refresh token permanently',
    description: 'An unknown token gets the same answer (RFC 7009).',
    type: RevokedDto,
  })
  async revoke(@Body() { refresh_token }: RefreshTokenDto, @Req() { id }: FastifyRequest) {
    const position = await this.commands.execute(new RevokeSession({ refreshToken: refresh_token, correlationId: id }));
    return new Written({ revoked: true }, position);
  }

  @Post('/sessions/end')
  @PublicWrite({
    summary: 'End all sessions of a wallet that signed for it',
    description: 'The message comes from /v1/tris/auth/siwe/start with the purpose `end_sessions`.',
    type: SessionsEndedDto,
    problems: [...SIGNED_MESSAGE_PROBLEMS, 'write_conflict'],
  })
  async end(@Body() { message, signature }: SignedMessageDto, @Req() { id }: FastifyRequest) {
    const command = new EndOwnSessions({ signed: { message, signature }, correlationId: id });
    const { wallet, position } = await this.commands.execute(command);
    return new Written<SessionsEndedDto>({ wallet, ended: true }, position);
  }
}

/** @throws Problem validation_failed if tris_id is missing, or does not fit the purpose */
function challengeRequestOf({ address, chain_id, purpose, tris_id }: StartSignInDto): ChallengeRequest {
  const at = '/tris_id';
  const isNamed = purpose === 'link' || purpose === 'unlink';
  if (isNamed && tris_id === undefined) {
    throw refusalOf(at, 'required', `tris_id is missing: name the TRIS to ${purpose}`);
  }
  const own = [ownTris(address, null), ownTris(address, chain_id)];
  if (!isNamed && tris_id !== undefined && (purpose !== 'claim' || !own.includes(tris_id))) {
    const message =
      purpose === 'claim' ? `a wallet can only claim ${own[0]}, a contract ${own[1]}` : `${purpose} takes no tris_id`;
    throw refusalOf(at, 'tris_id_purpose', message);
  }
  return { address: getAddress(address.toLowerCase()), chain_id, purpose, tris_id: tris_id ?? null };
}
