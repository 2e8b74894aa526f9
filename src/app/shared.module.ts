import { type DynamicModule, Global, Module, type Type } from '@nestjs/common';
import { CqrsModule } from '@nestjs/cqrs';
import { CLOCK, type Clock } from '../kernel/clock.js';
import type { Config } from '../kernel/config.js';
import { DeadLettersModule } from '../features/dead-letters/dead-letters.module.js';
import { EVENT_STORE } from '../stores/ports/event-store.js';
import { Writer } from '../commands/writer.js';
import { SignedCheckpoints } from '../credentials/log-key.js';
import { Logger } from '../kernel/logger.js';
import { Quotas } from '../commands/quotas.js';
import { POSITION_GATE } from '../kernel/positions.js';
import { JobsModule } from '../features/jobs/jobs.module.js';
import { JOBS } from '../stores/ports/jobs.js';
import { KEY_VALUE } from '../stores/ports/key-value.js';
import { Staleness } from '../read-side/staleness.js';
import { Views } from '../read-side/views.js';
import { READ_MODELS } from '../stores/ports/read-models.js';
import type { Stores } from '../stores/open.js';
import { AccessPolicies } from '../features/access/access-policies.js';
import { AccessProbes } from '../features/access/access-probes.js';
import { AffectedDecisions } from '../features/access/affected-decisions.js';
import { IdentityReader } from '../features/disc/identity-reader.js';
import { Lenses } from '../features/lenses/lenses.js';
import { Platforms } from '../features/organizations/platforms.js';
import { Vetting } from '../features/organizations/vetting.js';
import { PolicyNames } from '../features/policy-names/policy-names.js';
import { RecordedActions } from '../features/relay/recorded-actions.js';
import { RelayMetrics } from '../features/relay/relay-metrics.js';
import { ActionRecorder } from '../features/relay/relay.handlers.js';

@Global()
@Module({})
class SharedModule {}

/** An application with some features, dead letters and jobs. */
export function applicationOf(
  module: Type,
  features: readonly (Type | DynamicModule)[],
  stores: Stores,
  clock: Clock,
  config: Config,
): DynamicModule {
  // What every feature injects: the ports, the clock, the writer, the views, and what features read of one another.
  const providers = [
    { provide: EVENT_STORE, useValue: stores.eventStore },
    { provide: READ_MODELS, useValue: stores.readModels },
    { provide: KEY_VALUE, useValue: stores.keyValue },
    { provide: JOBS, useValue: stores.jobs },
    { provide: CLOCK, useValue: clock },
    Writer,
    Views,
    Platforms,
    Vetting,
    Lenses,
    IdentityReader,
    PolicyNames,
    AccessPolicies,
    AccessProbes,
    AffectedDecisions,
    RelayMetrics,
    ActionRecorder,
    RecordedActions,
    {
      provide: Staleness,
      useFactory: (views: Views) => new Staleness(stores.eventStore, views, config.maxStalenessSeconds),
      inject: [Views],
    },
    { provide: Quotas, useFactory: () => new Quotas(config, stores.keyValue, clock) },
    {
      provide: SignedCheckpoints,
      useFactory: (logger?: Logger) => new SignedCheckpoints(config, stores.keyValue, logger),
      inject: [{ token: Logger, optional: true }],
    },
    { provide: POSITION_GATE, useExisting: Views },
  ];
  const shared = { module: SharedModule, providers, exports: providers };
  return { module, imports: [CqrsModule.forRoot(), shared, DeadLettersModule, JobsModule, ...features] };
}
