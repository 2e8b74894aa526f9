import { Inject, Injectable } from '@nestjs/common';
import { identityRow } from '../../../projections/identities.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { Problem, refuseMisspelled } from '../../kernel/problems.js';
import { Views } from '../../read-side/views.js';
import { modelOrFirst } from '../../scoring/models/all.js';
import { IdentityReader } from '../disc/identity-reader.js';
import type { Observation } from './access-check.js';
import type { AccessPolicy } from './domain/access-policy.js';
import { IdentityFacts } from './facts.js';

/** Attempts at reading a subject whose first event may be applied between two reads. */
const LOOKS = 3;

/**
 * Reads what is known of subjects as of now, not of the end of the hour: a verification counts exactly until it expires.
 * If a server's clock that is ahead has given a later time to an event about a subject, as of that time.
 */
@Injectable()
export class Subjects {
  constructor(
    private readonly identities: IdentityReader,
    private readonly views: Views,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  /**
   * Observes subjects in one state of the read models.
   * @throws Problem identity_not_found if one is misspelled, policy_not_found for the lens, projection_rebuilding
   */
  async observe(trisIds: readonly string[], { vp, owner }: Pick<AccessPolicy, 'vp' | 'owner'>): Promise<Observation[]> {
    const now = this.clock();
    const log = this.identities.logId;
    for (let look = 1; ; look++) {
      const coordinates = { now, organization: owner, ...(vp !== null && { vp }) };
      const snapshots = await this.identities.snapshots(trisIds, coordinates);
      const unknown = trisIds.filter((_, i) => snapshots[i] instanceof Problem);
      unknown.forEach(refuseMisspelled);
      const read =
        unknown.length > 0 ? await this.views.read(unknown.map((trisId) => ({ get: identityRow(trisId) }))) : undefined;
      if (look < LOOKS && read?.results.some((row) => row !== undefined)) continue;
      return snapshots.map((snapshot) => {
        if (snapshot instanceof Problem) {
          const { manifest, position } = read!;
          return { now, as_of: now, log, position, model: modelOrFirst(manifest.model_hash), seen: null };
        }
        const { state, lens, position, as_of, trusts } = snapshot;
        const facts = new IdentityFacts(state, lens, as_of, trusts);
        return { now, as_of, log, position, model: lens.model, seen: { facts, lens, state } };
      });
    }
  }
}
