import { Inject, Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { internalContext } from '../../commands/context.js';
import { Writer } from '../../commands/writer.js';
import { type ApiKeyRecord, ApiKeys } from '../../credentials/api-keys.js';
import type { RecordedEvent } from '../../kernel/event.js';
import type { Fact } from '../../kernel/event-definition.js';
import { Logger } from '../../kernel/logger.js';
import { Problem } from '../../kernel/problems.js';
import { FOREVER_MS, KEY_VALUE, type KeyValue, changeValue } from '../../stores/ports/key-value.js';
import { decideGone, decideSeen, keyStream } from './domain/key.js';

/** The ids of the keys that were accepted when a process loaded the file last. */
const PRESENT = 'keys-present';
/** How often the file is looked at: a key that was not checked before its first request would be refused. */
const LOOK_MS = 500;

/** Records in the log which keys there are. The file decides which are accepted, except those with the id of another. */
@Injectable()
export class KeyLog implements OnModuleInit, OnApplicationShutdown {
  private looks: NodeJS.Timeout | undefined;

  constructor(
    private readonly keys: ApiKeys,
    private readonly writer: Writer,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
    private readonly logger: Logger,
  ) {}

  async onModuleInit(): Promise<void> {
    await this.keys.checkBy((records, by) => this.record(records, by));
    this.looks = setInterval(() => this.keys.look(), LOOK_MS).unref();
  }

  onApplicationShutdown(): void {
    clearInterval(this.looks);
  }

  /** @param by whoever changed the file @returns the keys that are accepted */
  private async record(records: readonly ApiKeyRecord[], by: string): Promise<ApiKeyRecord[]> {
    const accepted: ApiKeyRecord[] = [];
    for (const record of records) {
      try {
        await this.append(record.id, by, (history) => decideSeen(history, record));
        accepted.push(record);
      } catch (error) {
        if (!(error instanceof Problem) || error.code !== 'key_conflict') throw error;
        this.logger.error(`an API key is not accepted: ${error.message}`);
      }
    }
    const present = accepted.map(({ id }) => id).sort();
    await changeValue<string[]>(this.keyValue, PRESENT, FOREVER_MS, async (before = []) => {
      for (const id of before) {
        if (!present.includes(id)) await this.append(id, by, (history) => decideGone(history, id));
      }
      return before.join() === present.join() ? undefined : present;
    });
    return accepted;
  }

  private async append(id: string, by: string, decide: (history: readonly RecordedEvent[]) => Fact[]): Promise<void> {
    await this.writer.update(keyStream(id), internalContext(by, { id }), decide);
  }
}
