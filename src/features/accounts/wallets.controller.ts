import { Body, Controller, Get, Param, Post, Query } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import { getAddress } from 'ethers/address';
import { Written } from '../../http/answers.js';
import { Context, RequestActor, RequestContext } from '../../http/command-context.js';
import { PageQuery, TrisIdParams } from '../../http/common.dto.js';
import type { Actor } from '../../commands/context.js';
import { Keyed, Write } from '../../http/routes.js';
import { SessionsEndedDto, SIGNED_MESSAGE_PROBLEMS, SignedMessageDto } from './sessions.dto.js';
import {
  AccountLinkedDto,
  EndSessionsDto,
  LinkAccountDto,
  UnlinkWalletDto,
  WalletLinkedDto,
  WalletsDto,
  WalletUnlinkedDto,
} from './wallets.dto.js';
import { EndSessions } from './wallet-links.js';
import { LinkAccount, LinkWallet, ListWallets, UnlinkWallet } from './wallets.handlers.js';

const WALLET = '0x9d85ca56217d2bb651b00f15e694eb7e713637d4';

@Controller()
export class WalletsController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  @Post('/api/link-account')
  @Write({
    scope: 'identity:write',
    session: true,
    example: { wallet: WALLET, tris_id: 'tris@alice' },
    summary: 'Link a wallet to a TRIS ID on the caller’s statement',
    description:
      'A link made by a key is only asserted: it gives no right to act for the TRIS, and a signed link replaces it. ' +
      'A session links its own wallet, to the TRIS it acts for or to the wallet’s own: `tris:<address>`, of a contract ' +
      '`tris:eip155:<chain>:<address>`.',
    type: AccountLinkedDto,
    problems: ['self_statement', 'wallet_already_linked', 'write_conflict'],
  })
  async linkAccount(@Body() { wallet, tris_id }: LinkAccountDto, @Context() request: RequestContext) {
    // Part of the body hash, since a key and a session create different links.
    const by = request.actor.session ? { session: request.actor.session.chainId } : { key: true };
    const context = request.of({ wallet, tris_id, ...by });
    const position = await this.commands.execute(new LinkAccount({ wallet, trisId: tris_id, context }));
    return new Written<AccountLinkedDto>({ status: 'linked' }, position);
  }

  @Post('/v1/wallets/link')
  @Write({
    scope: 'identity:write',
    session: true,
    summary: 'Link a wallet that signed for it to the TRIS of the session',
    description:
      'The message comes from /v1/tris/auth/siwe/start with the purpose `link` and is signed by the new wallet. An ' +
      'operator’s key may send it for any TRIS, to link its first wallet or to replace a lost one.',
    type: WalletLinkedDto,
    problems: [...SIGNED_MESSAGE_PROBLEMS, 'write_conflict'],
  })
  async link(@Body() { message, signature }: SignedMessageDto, @Context() request: RequestContext) {
    const signed = { message, signature };
    const command = new LinkWallet({ signed, context: request.of(signed) });
    const { wallet, trisId, position } = await this.commands.execute(command);
    return new Written<WalletLinkedDto>({ status: 'linked', wallet, tris_id: trisId }, position);
  }

  @Post('/v1/wallets/unlink')
  @Write({
    scope: 'identity:write',
    session: true,
    example: { wallet: WALLET, reason_code: 'wallet_lost' },
    summary: 'End the link of a wallet',
    description:
      'A session of the TRIS can end any of its links, a session of the wallet only its own; the link of the wallet ' +
      'that founded the TRIS only with `message` and `signature` of that wallet. A key can end asserted links, an ' +
      'operator’s key with `ops` any link with a `reason_code`. All sessions of the wallet end with a link it signed.',
    type: WalletUnlinkedDto,
    problems: [...SIGNED_MESSAGE_PROBLEMS, 'wallet_not_linked', 'signature_required', 'write_conflict'],
  })
  async unlink(@Body() body: UnlinkWalletDto, @Context() request: RequestContext) {
    const { wallet, message, signature, reason_code = null } = body;
    const given = { ...(message && { message }), ...(signature && { signature }), ...(reason_code && { reason_code }) };
    const context = request.of({ wallet, unlink: true, ...given });
    const consent = message !== undefined && signature !== undefined ? { message, signature } : null;
    const command = new UnlinkWallet({ wallet, consent, reasonCode: reason_code, context });
    const { trisId, position } = await this.commands.execute(command);
    const answer = { status: 'unlinked', wallet: getAddress(wallet.toLowerCase()), tris_id: trisId } as const;
    return new Written<WalletUnlinkedDto>(answer, position);
  }

  @Post('/v1/wallets/end-sessions')
  @Write({
    scope: 'ops',
    example: { wallet: WALLET, reason_code: 'key_stolen' },
    summary: 'End all sessions of a wallet, on every chain',
    type: SessionsEndedDto,
    problems: ['write_conflict'],
  })
  async endSessions(@Body() { wallet, reason_code }: EndSessionsDto, @Context() request: RequestContext) {
    const context = request.of({ wallet, reason_code, end_sessions: true });
    const command = new EndSessions({ wallet, by: { reason: 'operator', reason_code }, context });
    const position = await this.commands.execute(command);
    return new Written<SessionsEndedDto>({ wallet: getAddress(wallet.toLowerCase()), ended: true }, position);
  }

  @Get('/v1/wallets/:tris_id')
  @Keyed({
    scope: 'identity:write',
    session: true,
    summary: 'List the wallets of a TRIS by address, for its own session or a key',
    description: 'A key of an organization sees only the wallets whose links its organization asserted.',
    type: WalletsDto,
    problems: ['identity_not_found'],
  })
  async list(@Param() { tris_id }: TrisIdParams, @Query() { limit, cursor }: PageQuery, @RequestActor() actor: Actor) {
    return this.queries.execute(new ListWallets({ trisId: tris_id, actor, limit, cursor }));
  }
}
