import { addAbortListener, once } from 'node:events';
import { realpathSync, unlinkSync } from 'node:fs';
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import { join } from 'node:path';
import { PassThrough, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { ACTOR } from '../kernel/config.js';
import { drained } from '../kernel/drained.js';
import { type SocketPath, socketPath } from '../kernel/socket-path.js';
import { StartError } from '../kernel/start-error.js';
import { VERSION } from '../kernel/version.js';
import type { Host, Hosted } from './cli.js';
import { CommandFailed } from './exit.js';
import { programFor } from './commands.js';
import { BadLine, type Call, PATH, SOCKET, type ToCaller, type ToOwner, jsonLines, socketAt } from './owner-socket.js';

/** A client that has sent half of its command is waited for this long, ms. */
const FIRST_LINE_MS = 10_000;
/** The longest line of a request, in characters: the policies of a folder are one. */
const MAX_LINE = 64 * 2 ** 20;
/** How long `close` waits for commands that it has ended, ms. */
const ENDING_MS = 3_000;

/**
 * Carries out commands of the command line, for other processes, in the process that owns the folder. Each runs as if
 * its caller were here; a caller that goes away ends its command.
 */
export class OwnerServer {
  private readonly server: Server;
  private readonly running = new Set<{ ending: AbortController; ended: Promise<void> }>();
  /** Carries out commands from now on. */
  start!: (host: Host) => void;
  private readonly host = new Promise<Host>((resolve) => (this.start = resolve));

  private constructor(private readonly path: SocketPath) {
    // A command may take hours.
    const limits = { requestTimeout: 0, headersTimeout: FIRST_LINE_MS, connectionsCheckingInterval: 1_000 };
    this.server = createServer(limits, (request, response) => {
      const ending = new AbortController();
      response.once('close', () => ending.abort());
      const ended = this.answer(request, response, ending.signal).catch(() => void response.destroy());
      const entry = { ending, ended };
      this.running.add(entry);
      void ended.finally(() => this.running.delete(entry));
    });
  }

  /**
   * Listens in a folder that this process owns. Commands wait until `start`.
   * @throws StartError if there can be no socket in the folder
   */
  static async listen(data: string): Promise<OwnerServer> {
    const folder = realpathSync(data);
    const file = join(folder, SOCKET);
    // Whoever owned the folder before may have left it.
    if (socketAt(file)) unlinkSync(file);
    const path = socketPath(folder, SOCKET);
    const owner = new OwnerServer(path);
    // The socket is created by this call, for this user only.
    const mask = process.umask(0o177);
    try {
      owner.server.listen({ path: path.path, exclusive: true });
    } finally {
      process.umask(mask);
    }
    try {
      await once(owner.server, 'listening');
    } catch (error) {
      path.close();
      const { code } = error as NodeJS.ErrnoException;
      throw new StartError(`${file} cannot be created (${code}): the file system must support Unix sockets.`);
    }
    // It must not keep the process alive.
    owner.server.unref();
    return owner;
  }

  /** Accepts no further command, ends those that run, and waits for them. */
  async close(): Promise<void> {
    const closed = once(this.server, 'close');
    this.server.close();
    for (const { ending } of this.running) ending.abort();
    const ended = Promise.all([...this.running].map((command) => command.ended));
    await Promise.race([ended, sleep(ENDING_MS, undefined, { ref: false })]);
    this.server.closeAllConnections();
    await closed;
    this.path.close();
  }

  private async answer(request: IncomingMessage, response: ServerResponse, signal: AbortSignal): Promise<void> {
    if (request.method !== 'POST' || request.url !== PATH) return refuse(response, 404, `POST ${PATH} runs a command`);
    const lines = jsonLines(request, MAX_LINE);
    const timer = setTimeout(() => request.destroy(), FIRST_LINE_MS);
    let call: Call;
    try {
      call = callIn((await lines.next()).value);
    } catch (error) {
      if (error instanceof BadLine) refuse(response, 400, `The command cannot be read: ${error.message}.`);
      return;
    } finally {
      clearTimeout(timer);
    }
    if (call.version !== VERSION) {
      const both = `the command is of version ${call.version}, the service that owns the folder of version ${VERSION}`;
      return refuse(response, 409, `The versions differ: ${both}. Use the command of that version.`);
    }
    if (!isActor(call.actor)) return refuse(response, 400, 'The command cannot be read: it names no actor.');
    response.writeHead(200, { 'Content-Type': 'application/x-ndjson' }).flushHeaders();
    const gone = new Promise<undefined>((resolve) => addAbortListener(signal, () => resolve(undefined)));
    const host = await Promise.race([this.host, gone]);
    if (host) await run(call, lines, response, host, signal);
  }
}

async function run(
  call: Call,
  lines: AsyncGenerator<unknown>,
  response: ServerResponse,
  host: Host,
  gone: AbortSignal,
): Promise<void> {
  const send = (line: ToCaller): boolean => response.write(`${JSON.stringify(line)}\n`);
  const interrupted = new AbortController();
  const signal = AbortSignal.any([gone, interrupted.signal]);
  const hosted: Hosted = {
    host,
    signal,
    actor: call.actor,
    value: call.value,
    items: itemsOf(lines as AsyncGenerator<ToOwner>, interrupted, signal),
    write: async (text) => {
      signal.throwIfAborted();
      if (!send({ write: text })) await once(response, 'drain', { signal });
    },
  };
  const output = (kind: 'out' | 'err') =>
    new Writable({
      decodeStrings: false,
      write: (text: string, _encoding, done) => {
        send(kind === 'out' ? { out: text } : { err: text });
        done();
      },
    });
  const { isTTY, columns } = call.terminal;
  const stderr = Object.assign(output('err'), { isTTY, ...(columns !== null && { columns }) });
  const io = { env: {}, stdin: process.stdin, stdout: output('out'), stderr };
  const argv = ['node', 'credence', ...call.argv];
  const cli = await programFor(argv, io, hosted);
  await cli.run(argv);
  send({ exit: cli.exitCode, complete: !cli.hasFailed });
  response.end();
}

/** What the caller reads for the command, read from the request a few items before it is needed. */
function itemsOf(
  lines: AsyncGenerator<ToOwner>,
  interrupted: AbortController,
  signal: AbortSignal,
): AsyncIterable<unknown> {
  const ahead = new PassThrough({ objectMode: true, highWaterMark: 1 });
  // The command may read none of it.
  ahead.on('error', () => undefined);
  addAbortListener(signal, () => ahead.destroy(signal.reason as Error));
  void (async () => {
    try {
      for await (const line of lines) {
        if ('interrupt' in line) interrupted.abort(new CommandFailed('The command was interrupted.'));
        else if (!ahead.destroyed && !ahead.write(line)) await drained(ahead);
      }
    } catch (error) {
      interrupted.abort(error);
    }
  })();
  return (async function* () {
    for await (const line of ahead as AsyncIterable<Exclude<ToOwner, { interrupt: true }>>) {
      if ('failure' in line) throw new CommandFailed(line.failure);
      if ('end' in line) return;
      yield line.item;
    }
  })();
}

function callIn(line: unknown): Call {
  const { version, argv, terminal } = (line ?? {}) as Partial<Call>;
  const isCall = typeof version === 'string' && Array.isArray(argv) && argv.every((one) => typeof one === 'string');
  if (!isCall || typeof terminal?.isTTY !== 'boolean') throw new BadLine('the first line is no command');
  return line as Call;
}

/** Calls of other versions may name none. */
const isActor = (actor: unknown): boolean =>
  typeof actor === 'string' && actor.startsWith('cli:') && ACTOR.test(actor.slice(4));

function refuse(response: ServerResponse, status: number, message: string): void {
  response.writeHead(status, { 'Content-Type': 'text/plain; charset=utf-8', Connection: 'close' }).end(message);
}
