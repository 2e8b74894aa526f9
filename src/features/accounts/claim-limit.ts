import { Inject, Injectable } from '@nestjs/common';
import { type RequestLimit, requestLimit } from '../../http/rate-limit.js';
import { Config } from '../../kernel/config.js';
import { KEY_VALUE, type KeyValue } from '../../stores/ports/key-value.js';

/** Requests of the general limit for one claim. */
const REQUESTS_PER_CLAIM = 20;

/** The limit on claims: anybody can make wallets, and each claim is an event that stays in the log. */
@Injectable()
export class ClaimLimit {
  private readonly limit: RequestLimit | undefined;

  constructor(@Inject(Config) config: Config, @Inject(KEY_VALUE) keyValue: KeyValue) {
    this.limit = requestLimit(config, Math.ceil(config.rateLimit / REQUESTS_PER_CLAIM), keyValue, 'claims');
  }

  /** Counts one claim. @throws Problem rate_limited */
  async take(address: string): Promise<void> {
    await this.limit?.take(address);
  }
}
