import { type DynamicModule, Module, type Type } from '@nestjs/common';
import type { Clock } from '../kernel/clock.js';
import type { Config, ModuleName } from '../kernel/config.js';
import type { Stores } from '../stores/open.js';
import { AuditModule } from '../features/audit/audit.module.js';
import { CredonationsModule } from '../features/credonations/credonations.module.js';
import { DiscModule } from '../features/disc/disc.module.js';
import { IdentityModule } from '../features/identity/identity.module.js';
import { IngestionModule } from '../features/ingestion/ingestion.module.js';
import { KeysModule } from '../features/keys/keys.module.js';
import { OperationsHttpModule } from '../features/operations/operations.module.js';
import { OrganizationsModule } from '../features/organizations/organizations.module.js';
import { DisputesModule } from '../features/disputes/disputes.module.js';
import { PersonModule } from '../features/person/person.module.js';
import { PoliciesModule } from '../features/validation-policies/policies.module.js';
import { RelayModule } from '../features/relay/relay.module.js';
import { SessionsModule } from '../features/accounts/sessions.module.js';
import { TroveModule } from '../features/trove/trove.module.js';
import { WalletsModule } from '../features/accounts/wallets.module.js';
import { WebhooksModule } from '../features/webhooks/webhooks.module.js';
import { VerificationsModule } from '../features/verifications/verifications.module.js';
import { WithdrawalsModule } from '../features/withdrawals/withdrawals.module.js';
import { applicationOf } from './shared.module.js';

/** Each feature can be enabled alone (requirement 9). `projectionsFor` names what it reads. */
const FEATURES: Record<ModuleName, Type> = {
  relay: RelayModule,
  withdrawals: WithdrawalsModule,
  disc: DiscModule,
  credonations: CredonationsModule,
  organizations: OrganizationsModule,
  identity: IdentityModule,
  verifications: VerificationsModule,
  policies: PoliciesModule,
  trove: TroveModule,
  sessions: SessionsModule,
  wallets: WalletsModule,
  person: PersonModule,
  disputes: DisputesModule,
  ingestion: IngestionModule,
  webhooks: WebhooksModule,
};

@Module({})
export class AppModule {
  static register(config: Config, stores: Stores, clock: Clock): DynamicModule {
    const features = config.modules.map((name) => FEATURES[name]);
    return applicationOf(
      AppModule,
      [AuditModule, OperationsHttpModule, KeysModule, ...features],
      stores,
      clock,
      config,
    );
  }
}
