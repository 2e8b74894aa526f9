import { Injectable, Optional } from '@nestjs/common';
import { Registry } from 'prom-client';
import { LargestCounter } from '../../kernel/largest-counter.js';

/** What this process has done with relays and with the actions that they became. */
@Injectable()
export class RelayMetrics {
  private readonly relayed: LargestCounter<'actions' | 'bytes' | 'flags'>;
  readonly relays: LargestCounter<'accepted' | 'refused' | 'failed'>;
  readonly changes: LargestCounter<'withdrawn' | 'counted'>;

  /** @param registry absent where no metrics are served: in commands */
  constructor(@Optional() registry?: Registry) {
    this.relayed = new LargestCounter(registry, {
      name: 'credence_relayed_total',
      help: 'What this process has recorded of relays: actions, their bytes, negative evidence (flags)',
      labels: ['owner', 'unit'],
      most: 20,
    });
    this.relays = new LargestCounter(registry, {
      name: 'credence_relays_total',
      help: 'Relays to this process',
      labels: ['platform', 'outcome'],
    });
    this.changes = new LargestCounter(registry, {
      name: 'credence_withdrawals_total',
      help: 'Actions that this process has withdrawn or reinstated',
      labels: ['platform', 'to'],
    });
  }

  /** @param owner the organization of the key that relayed, or the key itself */
  recorded(owner: string, bytes: number, isFlag: boolean): void {
    this.relayed.inc(owner, 'actions');
    this.relayed.inc(owner, 'bytes', bytes);
    // Also by 0: a series that begins with its first flag would not show that one as an increase.
    this.relayed.inc(owner, 'flags', isFlag ? 1 : 0);
  }
}
