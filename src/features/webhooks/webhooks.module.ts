import { Module } from '@nestjs/common';
import { ConsumersModule } from '../../read-side/consumers.module.js';
import { Deliveries } from './deliveries.js';
import { DeliveryCreator } from './delivery-creator.js';
import { DifferingDecisions } from '../withdrawals/differing-decisions.js';
import { Dispatcher } from './dispatcher.js';
import { Notices } from './notices.js';
import { Receivers } from './receivers.js';
import { Sender } from './sender.js';
import { Signatures } from './signatures.js';
import { WebhookLimit } from './webhook-limit.js';
import { WebhooksController } from './webhooks.controller.js';
import {
  ChangeWebhookHandler,
  CreateWebhookHandler,
  DeleteWebhookHandler,
  ListDeliveriesHandler,
  ListWebhooksHandler,
  ReplayWebhookHandler,
  RotateSecretHandler,
  SendNowHandler,
} from './webhooks.handlers.js';
import { Webhooks } from './webhooks.js';

@Module({
  imports: [ConsumersModule],
  controllers: [WebhooksController],
  providers: [
    Webhooks,
    Receivers,
    Signatures,
    Deliveries,
    Notices,
    DifferingDecisions,
    DeliveryCreator,
    Sender,
    Dispatcher,
    WebhookLimit,
    CreateWebhookHandler,
    ChangeWebhookHandler,
    DeleteWebhookHandler,
    RotateSecretHandler,
    ReplayWebhookHandler,
    SendNowHandler,
    ListWebhooksHandler,
    ListDeliveriesHandler,
  ],
})
export class WebhooksModule {}
