import { Body, Controller, Post, Req } from '@nestjs/common';
import { CommandBus } from '@nestjs/cqrs';
import { getAddress } from 'ethers/address';
import type { FastifyRequest } from 'fastify';
import { Written } from '../../http/answers.js';
import { bodyHash } from '../../commands/context.js';
import { PublicWrite } from '../../http/routes.js';
import { refusal } from '../../kernel/problems.js';
import {
  ChallengeDto,
  RefreshTokenDto,
  RevokedDto,
  SIGNED_MESSAGE_PROBLEMS,
  SignedMessageDto,
  StartSignInDto,
  TokensDto,
} from './sessions.dto.js';
import { RefreshSession, RevokeSession, SignIn, StartSignIn } from './sessions.handlers.js';
import type { Wish } from './siwe.js';

@Controller('/v1/tris')
export class SessionsController {
  constructor(private readonly commands: CommandBus) {}

  @Post('/auth/siwe/start')
  @PublicWrite({
    summary: 'Begin a wallet sign-in: the message to sign (EIP-4361)',
    type: ChallengeDto,
    problems: ['address_checksum'],
  })
  async start(@Body() body: StartSignInDto) {
    return new Written(await this.commands.execute(new StartSignIn(wishOf(body))), null);
  }

  @Post('/auth/siwe/verify')
  @PublicWrite({
    summary: 'Complete a wallet sign-in: the signed message for a session',
    description: 'A message is good for one try, whether or not its signature is sound.',
    type: TokensDto,
    problems: SIGNED_MESSAGE_PROBLEMS,
  })
  async verify(@Body() body: SignedMessageDto, @Req() request: FastifyRequest) {
    const { message, signature } = body;
    const context = { correlation_id: request.id, idempotency: null, body_hash: bodyHash({ message, signature }) };
    const { tokens, position } = await this.commands.execute(new SignIn(message, signature, context));
    return new Written(tokens, position);
  }

  @Post('/token/refresh')
  @PublicWrite({
    summary: 'Replace a refresh token, for a new access token',
    description: 'Repeated within 15 seconds it gets the same refresh token again; later it ends the session.',
    type: TokensDto,
    problems: ['refresh_unknown', 'refresh_reused', 'refresh_revoked'],
  })
  async refresh(@Body() { refresh_token }: RefreshTokenDto, @Req() request: FastifyRequest) {
    return new Written(await this.commands.execute(new RefreshSession(refresh_token, plain(request))), null);
  }

  @Post('/token/revoke')
  @PublicWrite({
    summary: 'End the session of a refresh token, for good',
    description: 'A token that is not known has nothing to end and gets the same answer (RFC 7009).',
    type: RevokedDto,
  })
  async revoke(@Body() { refresh_token }: RefreshTokenDto, @Req() request: FastifyRequest) {
    const position = await this.commands.execute(new RevokeSession(refresh_token, plain(request)));
    return new Written({ revoked: true }, position);
  }
}

const plain = ({ id }: FastifyRequest) => ({ correlation_id: id, idempotency: null });

/** @throws Problem validation_failed for a TRIS that the purpose has no use for, or lacks */
function wishOf({ address, chain_id, purpose, tris_id }: StartSignInDto): Wish {
  const at = '/tris_id';
  if (purpose === 'link' && tris_id === undefined) {
    throw refusal([{ pointer: at, code: 'required', message: 'tris_id is missing: say to which TRIS to link' }]);
  }
  const claimed = `tris:${address.toLowerCase()}`;
  if (purpose !== 'link' && tris_id !== undefined && (purpose === 'sign_in' || tris_id !== claimed)) {
    const message = purpose === 'claim' ? `a wallet can claim ${claimed} only` : 'signing in takes no tris_id';
    throw refusal([{ pointer: at, code: 'tris_id_purpose', message }]);
  }
  const wanted = purpose === 'claim' ? claimed : (tris_id ?? null);
  return { address: getAddress(address.toLowerCase()), chain_id, purpose, tris_id: wanted };
}
