import { Body, Controller, Get, Param, Post, Query } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import { getAddress } from 'ethers/address';
import { Written } from '../../http/answers.js';
import { Context, RequestActor, RequestContext } from '../../http/command-context.js';
import { PageQuery, TrisIdParams } from '../../http/common.dto.js';
import type { Actor } from '../../commands/context.js';
import { Keyed, Write } from '../../http/routes.js';
import { SIGNED_MESSAGE_PROBLEMS, SignedMessageDto } from './sessions.dto.js';
import {
  AccountLinkedDto,
  LinkAccountDto,
  UnlinkWalletDto,
  WalletLinkedDto,
  WalletsDto,
  WalletUnlinkedDto,
} from './wallets.dto.js';
import { LinkAccount, LinkWallet, ListWallets, UnlinkWallet } from './wallets.handlers.js';

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
    summary: 'Link a wallet to a TRIS ID by somebody’s word',
    description:
      'A key’s word gives a link that is only asserted: nobody can sign in with it, and a signed link displaces it. A ' +
      'session links its own wallet, to the TRIS it acts for or to the wallet’s own, `tris:<address>`.',
    type: AccountLinkedDto,
    problems: ['address_checksum', 'wallet_already_linked', 'write_conflict'],
  })
  async linkAccount(@Body() { wallet, tris_id }: LinkAccountDto, @Context() request: RequestContext) {
    // By a key and by a session it is not the same command: what they link is not.
    const by = request.actor.session ? { session: request.actor.session.chainId } : { key: true };
    const context = request.of({ wallet, tris_id, ...by });
    const { position } = await this.commands.execute(new LinkAccount(wallet, tris_id, context));
    return new Written<AccountLinkedDto>({ status: 'linked' }, position);
  }

  @Post('/v1/wallets/link')
  @Write({
    scope: 'identity:write',
    session: true,
    summary: 'Link a wallet that signed for it to the TRIS of the session',
    description:
      'The message comes from /v1/tris/auth/siwe/start with the purpose `link` and is signed by the new wallet. An ' +
      'operator’s key may send it for any TRIS: the first wallet of one that has none, or instead of a lost one.',
    type: WalletLinkedDto,
    problems: [...SIGNED_MESSAGE_PROBLEMS, 'write_conflict'],
  })
  async link(@Body() { message, signature }: SignedMessageDto, @Context() request: RequestContext) {
    const context = request.of({ message, signature });
    const result = await this.commands.execute(new LinkWallet(message, signature, context));
    const { wallet, trisId, position } = result;
    return new Written<WalletLinkedDto>({ status: 'linked', wallet, tris_id: trisId }, position);
  }

  @Post('/v1/wallets/unlink')
  @Write({
    scope: 'identity:write',
    session: true,
    summary: 'End the link of a wallet',
    description:
      'The session of the TRIS ends any of its links, the session of the wallet its own. A key ends links that are only ' +
      'asserted. Sessions of the wallet act for the TRIS no more, at once for whatever writes.',
    type: WalletUnlinkedDto,
    problems: ['address_checksum', 'wallet_not_linked', 'write_conflict'],
  })
  async unlink(@Body() { wallet }: UnlinkWalletDto, @Context() request: RequestContext) {
    const context = request.of({ wallet, unlink: true });
    const { trisId, position } = await this.commands.execute(new UnlinkWallet(wallet, context));
    const answer = { status: 'unlinked', wallet: getAddress(wallet.toLowerCase()), tris_id: trisId } as const;
    return new Written<WalletUnlinkedDto>(answer, position);
  }

  @Get('/v1/wallets/:tris_id')
  @Keyed({
    scope: 'identity:write',
    session: true,
    summary: 'The wallets of a TRIS, by address: for its own session, or for a key',
    type: WalletsDto,
  })
  async list(@Param() { tris_id }: TrisIdParams, @Query() { limit, cursor }: PageQuery, @RequestActor() actor: Actor) {
    return this.queries.execute(new ListWallets(tris_id, actor, limit, cursor));
  }
}
