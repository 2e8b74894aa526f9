import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { createConnection, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StartError } from '../../kernel/start-error.js';

/** How long a process may take to pause its commits, ms. */
const WAIT_MS = 30_000;
/** The longest path of a socket, in bytes: macOS has room for 104 with the final zero, Linux for 108. */
const MAX_PATH_BYTES = 103;
const SUFFIX = '.sock';

/**
 * Pauses the commits of all other processes while one opens an environment.
 *
 * Without it a commit can be lost. An opener reads the number of the last transaction, and stores it a moment later for
 * all processes. If another process commits between the two, the next transaction starts from the state before that
 * commit and overwrites it (OpenLDAP ITS#9496, present in the LMDB that the library contains).
 *
 * Each process that has an environment open listens on a socket in its folder, `<process id>-<uuid>.sock`. An opener
 * connects to all of them. Each answers when none of its commits is in flight, and starts no further one until the
 * opener disconnects. The operating system closes the connections of a process that ends.
 */
export class CommitPause {
  private readonly name = `${process.pid}-${randomUUID()}${SUFFIX}`;
  private readonly server: Server;
  /** The connections of processes that are opening the environment. */
  private readonly openers = new Set<Socket>();
  private waiting: (() => void)[] = [];

  /**
   * @param settled resolves when no commit of this process is in flight
   * @throws StartError if there can be no socket in the folder
   */
  static async listen(folder: string, settled: () => Promise<void>): Promise<CommitPause> {
    mkdirSync(folder, { recursive: true });
    const pause = new CommitPause(folder, settled);
    try {
      await pause.startListening();
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      throw new StartError(
        `No Unix socket can be created in ${folder} (${code}): check its permissions, and that its file system supports sockets.`,
      );
    }
    return pause;
  }

  private constructor(
    private readonly folder: string,
    settled: () => Promise<void>,
  ) {
    this.server = createServer((opener) => {
      this.openers.add(opener);
      opener.on('error', () => undefined);
      opener.on('close', () => this.left(opener));
      opener.resume();
      void settled().then(() => opener.write('paused'));
    });
    this.server.unref();
  }

  /** Resolves when no other process is opening the environment. */
  async over(): Promise<void> {
    while (this.isOn) await new Promise<void>((resolve) => this.waiting.push(resolve));
  }

  /** Whether another process is opening the environment: no commit may start. */
  get isOn(): boolean {
    return this.openers.size > 0;
  }

  /**
   * Runs `action` while no other process commits.
   * @throws StartError if one of them does not answer
   */
  async whileOthersPause<T>(action: () => T, waitMs = WAIT_MS): Promise<T> {
    const names = readdirSync(this.folder).filter((name) => name.endsWith(SUFFIX) && name !== this.name);
    const asked = names.map((name) => this.ask(name, waitMs));
    try {
      await Promise.all(asked.map(({ paused }) => paused));
      return action();
    } finally {
      for (const { connection } of asked) connection.destroy();
    }
  }

  close(): void {
    this.server.close();
    for (const opener of this.openers) opener.destroy();
    rmSync(join(this.folder, this.name), { force: true });
  }

  /** The socket gets its name once it is listening, since nobody else may take it for that of a process that ended. */
  private async startListening(): Promise<void> {
    const unnamed = `${this.name}.new`;
    await withShortPath(this.folder, unnamed, (path) => {
      return new Promise<void>((resolve, reject) => {
        this.server.once('error', reject);
        // Else the first process of a group would listen in its place, and later.
        this.server.listen({ path, exclusive: true }, resolve);
      });
    });
    renameSync(join(this.folder, unnamed), join(this.folder, this.name));
  }

  private ask(name: string, waitMs: number): { connection: Socket; paused: Promise<void> } {
    const connection = withShortPath(this.folder, name, createConnection);
    const paused = new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => {
        const [pid] = name.split('-');
        reject(new StartError(`Process ${pid} has ${this.folder} open and does not answer: end it, or wait for it.`));
      }, waitMs);
      const settle = (result: () => void) => () => {
        clearTimeout(timer);
        result();
      };
      connection.on('data', settle(resolve));
      connection.on('error', (error: NodeJS.ErrnoException) => {
        // Nobody listens: the process has ended.
        if (error.code === 'ECONNREFUSED') rmSync(join(this.folder, name), { force: true });
        else if (error.code !== 'ENOENT' && error.code !== 'ECONNRESET' && error.code !== 'EPIPE') {
          const what = `${join(this.folder, name)} cannot be connected to (${error.code})`;
          settle(() => reject(new StartError(`${what}: run this as the user who runs the service.`)))();
        }
      });
      connection.on('close', settle(resolve));
    });
    return { connection, paused };
  }

  private left(opener: Socket): void {
    this.openers.delete(opener);
    if (this.isOn) return;
    const waiting = this.waiting;
    this.waiting = [];
    for (const resume of waiting) resume();
  }
}

/**
 * Calls `use` with a path of the socket that is short enough, through a symbolic link if it has to be. The link is gone
 * afterwards: Node binds and connects before the call returns.
 */
function withShortPath<T>(folder: string, name: string, use: (path: string) => T): T {
  const isShort = (path: string) => Buffer.byteLength(path) <= MAX_PATH_BYTES;
  const path = join(folder, name);
  if (isShort(path)) return use(path);
  // That of the system can be long, as it is on macOS.
  const place = [tmpdir(), '/tmp'].find((one) => isShort(join(one, 'c-XXXXXX/d', name))) ?? tmpdir();
  const shortcuts = mkdtempSync(join(place, 'c-'));
  try {
    symlinkSync(folder, join(shortcuts, 'd'));
    return use(join(shortcuts, 'd', name));
  } finally {
    rmSync(shortcuts, { recursive: true, force: true });
  }
}
