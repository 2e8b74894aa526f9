import { Injectable } from '@nestjs/common';
import type { Session } from '../../credentials/caller.js';
import { Problem } from '../../kernel/problems.js';
import { WalletLinks } from './wallet-links.js';
import { trisActedFor } from './domain/wallet.js';
import { RefreshFamilies } from './refresh-families.js';

/** What a session may act for now, according to the log. An access token only says what held when it was issued. */
@Injectable()
export class SessionStanding {
  constructor(
    private readonly families: RefreshFamilies,
    private readonly links: WalletLinks,
  ) {}

  /** The session, with the TRIS it may act for now, or null. @throws Problem session_revoked */
  async of(session: Session): Promise<Session> {
    const [open, revoked, link] = await Promise.all([
      this.families.isOpen(session.family, session.wallet),
      this.families.isRevoked(session.family),
      this.links.of(session.wallet),
    ]);
    if (revoked || !open) throw new Problem('session_revoked', 'The session has ended. Sign in again.');
    return { ...session, trisId: trisActedFor(link, session.chainId) };
  }
}
