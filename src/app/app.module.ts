import type { Projection } from '../../projections/projection.js';
import { type DynamicModule, Global, Module, type Type } from '@nestjs/common';
import { CqrsModule } from '@nestjs/cqrs';
import { CLOCK, type Clock } from '../kernel/clock.js';
import type { Config, ModuleName } from '../kernel/config.js';
import { AuditModule } from '../features/audit/audit.module.js';
import { CredonationsModule } from '../features/credonations/credonations.module.js';
import { DeadLettersModule } from '../features/dead-letters/dead-letters.module.js';
import { DiscModule } from '../features/disc/disc.module.js';
import { EVENT_STORE } from '../stores/ports/event-store.js';
import { Writer } from '../commands/writer.js';
import { SignedCheckpoints } from '../credentials/log-key.js';
import { Logger } from '../kernel/logger.js';
import { Quotas } from '../commands/quotas.js';
import { POSITION_GATE } from '../kernel/positions.js';
import { IdentityModule } from '../features/identity/identity.module.js';
import { IngestionModule } from '../features/ingestion/ingestion.module.js';
import { JobsModule } from '../features/jobs/jobs.module.js';
import { JOBS } from '../stores/ports/jobs.js';
import { KEY_VALUE } from '../stores/ports/key-value.js';
import { KeysModule } from '../features/keys/keys.module.js';
import { OperationsHttpModule } from '../features/operations/operations.module.js';
import { OrganizationsModule } from '../features/organizations/organizations.module.js';
import { DisputesModule } from '../features/disputes/disputes.module.js';
import { PersonModule } from '../features/person/person.module.js';
import { PoliciesModule } from '../features/validation-policies/policies.module.js';
import { PROJECTIONS } from '../read-side/all-projections.js';
import { Staleness } from '../read-side/staleness.js';
import { Views } from '../read-side/views.js';
import { READ_MODELS } from '../stores/ports/read-models.js';
import { RelayModule } from '../features/relay/relay.module.js';
import { SessionsModule } from '../features/accounts/sessions.module.js';
import type { Stores } from '../stores/open.js';
import { TroveModule } from '../features/trove/trove.module.js';
import { WalletsModule } from '../features/accounts/wallets.module.js';
import { WebhooksModule } from '../features/webhooks/webhooks.module.js';
import { VerificationsModule } from '../features/verifications/verifications.module.js';
import { WithdrawalsModule } from '../features/withdrawals/withdrawals.module.js';
import { AccessPolicies } from '../features/access/access-policies.js';
import { AccessProbes } from '../features/access/access-probes.js';
import { AffectedDecisions } from '../features/access/affected-decisions.js';
import { IdentityReader } from '../features/disc/identity-reader.js';
import { Lenses } from '../features/lenses/lenses.js';
import { Platforms } from '../features/organizations/platforms.js';
import { Vetting } from '../features/organizations/vetting.js';
import { PolicyNames } from '../features/policy-names/policy-names.js';
import { ActionChanges } from '../features/relay/action-changes.js';
import { RelayMetrics } from '../features/relay/relay-metrics.js';
import { ActionRecorder } from '../features/relay/relay.handlers.js';
import { RecordedActions } from '../features/withdrawals/recorded-actions.js';

/** Each feature can be enabled alone (requirement 9): its module, and the projections it reads. */
const FEATURES: Record<ModuleName, { module: Type; projections: readonly string[] }> = {
  relay: { module: RelayModule, projections: ['identities'] },
  withdrawals: {
    module: WithdrawalsModule,
    projections: ['actions', 'identities', 'timeline', 'accreditations', 'policies', 'lenses', 'decisions'],
  },
  disc: {
    module: DiscModule,
    projections: ['identities', 'timeline', 'accreditations', 'credonations', 'organizations', 'policies', 'lenses'],
  },
  credonations: { module: CredonationsModule, projections: ['identities', 'credonations'] },
  organizations: { module: OrganizationsModule, projections: ['organizations'] },
  identity: { module: IdentityModule, projections: ['accreditations', 'identities'] },
  verifications: { module: VerificationsModule, projections: ['schemes'] },
  policies: {
    module: PoliciesModule,
    projections: ['identities', 'timeline', 'accreditations', 'policies', 'access_policies', 'decisions', 'lenses'],
  },
  trove: { module: TroveModule, projections: ['trove'] },
  sessions: { module: SessionsModule, projections: [] },
  wallets: { module: WalletsModule, projections: ['wallets'] },
  person: {
    module: PersonModule,
    projections: [
      'identities',
      'timeline',
      'accreditations',
      'credonations',
      'actions',
      'decisions',
      'trove',
      'disputes',
      'wallets',
      'lenses',
      'policies',
    ],
  },
  disputes: { module: DisputesModule, projections: ['actions', 'disputes'] },
  ingestion: { module: IngestionModule, projections: [] },
  webhooks: {
    module: WebhooksModule,
    projections: [
      'webhooks',
      'identities',
      'timeline',
      'accreditations',
      'disputes',
      'policies',
      'access_policies',
      'lenses',
    ],
  },
};

/** The projections that some enabled feature reads; dead letters and the tree of the log are always kept. */
export function projectionsFor(modules: readonly ModuleName[]): readonly Projection[] {
  const wanted = new Set(['dead_letters', 'log_tree', ...modules.flatMap((name) => FEATURES[name].projections)]);
  return PROJECTIONS.filter(({ name }) => wanted.has(name));
}

/** What every feature injects: the ports, the clock, the writer, the views, and what features read of one another. */
@Global()
@Module({})
class SharedModule {
  static register(stores: Stores, clock: Clock, config: Config): DynamicModule {
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
      ActionChanges,
      RecordedActions,
      {
        provide: Staleness,
        useFactory: (views: Views) => new Staleness(stores.eventStore, views, config.maxStalenessSeconds),
        inject: [Views],
      },
      {
        provide: Quotas,
        useFactory: () => new Quotas(config, stores.keyValue, clock),
      },
      {
        provide: SignedCheckpoints,
        useFactory: (logger?: Logger) => new SignedCheckpoints(config, stores.keyValue, logger),
        inject: [{ token: Logger, optional: true }],
      },
      { provide: POSITION_GATE, useExisting: Views },
    ];
    return { module: SharedModule, providers, exports: providers };
  }
}

@Module({})
export class AppModule {
  static register(config: Config, stores: Stores, clock: Clock): DynamicModule {
    const features = config.modules.map((name) => FEATURES[name].module);
    return AppModule.of([AuditModule, OperationsHttpModule, KeysModule, ...features], stores, clock, config);
  }

  /** The application with only these features. */
  static of(features: readonly (Type | DynamicModule)[], stores: Stores, clock: Clock, config: Config): DynamicModule {
    const imports = [
      CqrsModule.forRoot(),
      SharedModule.register(stores, clock, config),
      DeadLettersModule,
      JobsModule,
      ...features,
    ];
    return { module: AppModule, imports };
  }
}
