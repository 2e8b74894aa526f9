import { type PlatformRow, placeOf } from '../../../projections/evidence-rows.js';
import { isDue, yieldIfDue } from '../../kernel/turn.js';
import { type Lens, tctOf } from '../../scoring/lens.js';
import { isFlags } from '../../scoring/names.js';
import { CRITICALITIES, MODEL, TCT_BY_CRITICALITY } from '../../scoring/model.js';
import type { ShareDto } from './disc.dto.js';
import { largest } from './largest.js';

/** The contribution of each platform, and of each counterparty, under a lens. */
export class PlatformShares {
  private readonly platforms = new Map<string, ShareDto>();
  private readonly counterparties = new Map<string, ShareDto>();

  constructor(readonly lens: Lens) {}

  /** Adds an action. */
  addAction(
    action: { metric: string; platform_id: string; counterparty?: string },
    criticality: number,
    sign: 1 | -1,
  ): void {
    const tct = sign * tctOf(this.lens, action.metric, criticality);
    const isFlag = isFlags(action.metric);
    this.add(placeOf(action), sign, isFlag ? 0 : tct, isFlag ? tct : 0);
  }

  /** Adds all actions of a place under the model's own lens, which depends on nothing but their criticality. */
  addRow(place: string, { counts }: PlatformRow): void {
    let [tct, flagged] = [0, 0];
    for (const [criticality, each] of TCT_BY_CRITICALITY.entries()) {
      tct += counts[criticality]! * each;
      flagged += counts[CRITICALITIES.length + criticality]! * each;
    }
    const actions = counts.reduce((sum, count) => sum + count, 0);
    this.add(place, actions, tct, flagged);
  }

  /** @param place see `placeOf` */
  add(place: string, actions: number, tct: number, flagged: number): void {
    const end = place.indexOf('/');
    addTo(this.platforms, end < 0 ? place : place.slice(0, end), actions, tct, flagged);
    if (end >= 0) addTo(this.counterparties, place.slice(end + 1), actions, tct, flagged);
  }

  /** The platforms with the largest effect, then by id. */
  async top(limit: number): Promise<({ platform_id: string } & ShareDto)[]> {
    return (await top(this.platforms, limit)).map(([platform_id, share]) => ({ platform_id, ...share }));
  }

  /** In the same way. */
  async topCounterparties(limit: number): Promise<({ tris_id: string } & ShareDto)[]> {
    return (await top(this.counterparties, limit)).map(([tris_id, share]) => ({ tris_id, ...share }));
  }
}

function addTo(shares: Map<string, ShareDto>, name: string, actions: number, tct: number, flagged: number): void {
  let share = shares.get(name);
  if (!share) shares.set(name, (share = { actions: 0, tct: 0, flagged_tct: 0 }));
  share.actions += actions;
  share.tct += tct;
  share.flagged_tct += flagged;
}

async function top(shares: ReadonlyMap<string, ShareDto>, limit: number): Promise<[string, ShareDto][]> {
  const names: string[] = [];
  const effects = new Float64Array(shares.size);
  for (const [name, { actions, tct, flagged_tct }] of shares) {
    if (isDue()) await yieldIfDue();
    // All of its actions are withdrawn.
    if (actions === 0) continue;
    effects[names.length] = tct + MODEL.forfeit_factor * flagged_tct;
    names.push(name);
  }
  const found = await largest([...names.keys()], effects, names, limit);
  return found.map((n) => [names[n]!, shares.get(names[n]!)!]);
}
