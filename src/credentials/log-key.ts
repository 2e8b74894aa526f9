import { createHash, randomUUID } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import type { Config } from '../kernel/config.js';
import { replaceBy } from '../kernel/replace-file.js';
import type { Logger } from '../kernel/logger.js';
import { FOREVER_MS, type KeyValue } from '../stores/ports/key-value.js';
import { KeyFile, type KeyKind, KeyRing } from './key-file.js';
import { ED25519, type SigningKey } from './signing-keys.js';

/** The key that signs checkpoints of the log, and the checkpoint that it has signed last (docs/decisions/0036). */

export interface Checkpoint {
  origin: string;
  size: number;
  /** Base64. */
  root: string;
}

const KEPT = 'log-checkpoint';

/** Without a shared secret. */
const LOG_KEY: KeyKind<SigningKey> = { make: ED25519.make, read: ED25519.read };
export const logKeyFile = (config: Config) => new KeyFile(config.logKey ?? config.inData('log-key.json'), LOG_KEY);

/** The last checkpoint that was signed: beside the key, and in the cluster profile in PostgreSQL, too. */
export class SignedCheckpoints {
  private readonly file: KeyFile<SigningKey>;
  private readonly path: string;
  private readonly shared: KeyValue | null;
  private ring: KeyRing<SigningKey> | undefined;
  /** Whether it was logged that nothing can be kept beside the key. */
  private hasWarned = false;

  /** @param keyValue of the cluster profile; only there it is asked */
  constructor(
    private readonly config: Config,
    keyValue: KeyValue | null,
    private readonly logger?: Logger,
  ) {
    this.shared = config.profile === 'cluster' ? keyValue : null;
    this.file = logKeyFile(config);
    this.path = `${this.file.path}.checkpoint`;
  }

  /** Whether there is a key. */
  get exists(): boolean {
    return this.ring !== undefined || this.file.exists;
  }

  /** What is wrong if a file is named and not there, such as on a disk that is not mounted, as a clause; else undefined. */
  get missing(): string | undefined {
    if (this.exists || this.config.logKey === undefined) return undefined;
    return `CREDENCE_LOG_KEY names ${this.file.path}, which does not exist`;
  }

  /** The newest signed note; undefined: nothing was signed. */
  async note(): Promise<string | undefined> {
    const shared = (await this.shared?.get(KEPT)) as string | undefined;
    // A log that was migrated to the cluster profile has one beside its key only. The one of a worker that has not signed
    // for long is older than that in PostgreSQL, unless an older copy of the latter was restored.
    const beside = existsSync(this.path) ? readFileSync(this.path, 'utf8') : undefined;
    return shared === undefined || (beside !== undefined && isBehind(shared, beside)) ? beside : shared;
  }

  /** The newest signed checkpoint; undefined: there is none. */
  async last(): Promise<Checkpoint | undefined> {
    const note = await this.note();
    return note === undefined ? undefined : checkpointIn(note);
  }

  /**
   * Signs a checkpoint that extends the last one, and keeps it.
   * @param last what `note` gave
   * @returns false if another process has signed meanwhile
   * @throws ConfigError
   */
  async sign(checkpoint: Checkpoint, last: string | undefined): Promise<boolean> {
    const { origin, size, root } = checkpoint;
    const { sign, jwk } = (this.ring ??= new KeyRing(this.file, this.logger, Date.now)).current;
    const text = `${origin}\n${size}\n${root}\n`;
    const signature = sign!(Buffer.from(text));
    const note = `${text}\n— ${origin} ${Buffer.concat([keyId(origin, jwk.x), signature]).toString('base64')}\n`;
    const { shared } = this;
    if (!shared) {
      // One process owns the log.
      await this.keepBeside(note, `${this.path}.tmp`);
      return true;
    }
    const kept = (await shared.get(KEPT)) as string | undefined;
    const isLast = kept === last || (last !== undefined && kept !== undefined && isBehind(kept, last));
    const isSigned =
      kept === undefined
        ? await shared.putIfAbsent(KEPT, note, FOREVER_MS)
        : isLast && (await shared.replace(KEPT, kept, note, FOREVER_MS));
    // Workers may have a key file in common.
    if (isSigned) await this.keepBeside(note, `${this.path}.${randomUUID()}.tmp`).catch(this.warn);
    return isSigned;
  }

  private async keepBeside(note: string, draft: string): Promise<void> {
    await replaceBy(this.path, draft, () => writeFile(draft, note));
  }

  private readonly warn = (error: Error): void => {
    if (!this.hasWarned) {
      this.logger?.warn(
        `what was signed last of the log is kept in PostgreSQL only, and not beside the log key (${error.message}): if an older copy of both databases is restored, that is not noticed`,
      );
    }
    this.hasWarned = true;
  };
}

/** Whether a note is of fewer events of the same log than another one. */
function isBehind(note: string, other: string): boolean {
  const [one, two] = [checkpointIn(note), checkpointIn(other)];
  return one.origin === two.origin && one.size < two.size;
}

/** The checkpoint of a signed note that this service has written. */
export function checkpointIn(note: string): Checkpoint {
  const [origin, size, root] = note.split('\n') as [string, string, string];
  return { origin, size: Number(size), root };
}

/** The key in the form of C2SP signed-note, under which a checkpoint of an origin can be verified. */
export function verifierKey(origin: string, x: string): string {
  return `${origin}+${keyId(origin, x).toString('hex')}+${publicKey(x).toString('base64')}`;
}

function keyId(origin: string, x: string): Buffer {
  return createHash('sha256').update(`${origin}\n`).update(publicKey(x)).digest().subarray(0, 4);
}

/** With the byte that says Ed25519. */
function publicKey(x: string): Buffer {
  return Buffer.concat([Buffer.of(1), Buffer.from(x, 'base64url')]);
}
