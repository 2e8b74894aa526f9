import { Controller, Get } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';
import type { Caller, Session } from '../../credentials/caller.js';
import { Lines } from '../../http/answers.js';
import { RequestCaller } from '../../http/controllers.js';
import { Keyed } from '../../http/routes.js';
import { MeDto } from './person.dto.js';
import { ExportPerson, GetPerson } from './person.handlers.js';

/** What callers see of themselves. */
@Controller('/v1/me')
export class PersonController {
  constructor(private readonly queries: QueryBus) {}

  @Get()
  @Keyed({
    scope: 'any',
    session: true,
    summary: 'Get who sends this request: a key and what it permits, or a session and whom it acts for',
    description:
      'Of a session the TRIS, its wallets, verifications and open disputes, and the BAD status if one is set.',
    type: MeDto,
    problems: ['identity_not_found'],
  })
  async get(@RequestCaller() { keyId, scopes, organization, session, expiresAt }: Caller): Promise<MeDto> {
    const me = { key_id: keyId, scopes: [...scopes], organization };
    return session ? { ...me, ...(await this.queries.execute(new GetPerson({ session, expiresAt: expiresAt! }))) } : me;
  }

  @Get('/export')
  @Keyed({
    scope: 'session',
    summary: 'Download everything that is recorded about the TRIS of the session, as lines of JSON (NDJSON)',
    description:
      'A line for each event, then one with `end_of_export`: the number of events, and the SHA-256 of the lines before. ' +
      'If that is missing, the export broke off: read it again. docs/privacy.md describes the lines, and what can be ' +
      'erased.',
    lines: true,
  })
  async export(@RequestCaller() { session }: Caller) {
    return new Lines(await this.queries.execute(new ExportPerson({ session: session as Session })));
  }
}
