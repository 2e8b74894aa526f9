import { addAbortListener, once } from 'node:events';
import { realpathSync, unlinkSync } from 'node:fs';
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import { join } from 'node:path';
import { PassThrough, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { ACTOR } from '../kernel/config.js';
import { drained } from '../kernel/drained.js';
import { socketPath } from '../kernel/socket-path.js';
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

export interface OwnerServer {
  /** Carries out commands from now on. */
  start(host: Host): void;
  /** Accepts no further command, ends those that run, and waits for them. */
  close(): Promise<void>;
}

/**
 * Listens in a folder that this process owns, and carries out commands of the command line for other processes. Each runs
 * as if its caller were here; a caller that goes away ends its command. Commands wait until `start`.
 * @throws StartError if there can be no socket in the folder
 */
export async function listenForCommands(data: string): Promise<OwnerServer> {
  const folder = realpathSync(data);
  const file = join(folder, SOCKET);
  // Whoever owned the folder before may have left it.
  if (socketAt(file)) unlinkSync(file);
  const path = socketPath(folder, SOCKET);
  let start!: OwnerServer['start'];
  const host = new Promise<Host>((resolve) => (start = resolve));
  const running = new Map<AbortController, Promise<void>>();
  // A command may take hours.
  const limits = { requestTimeout: 0, headersTimeout: FIRST_LINE_MS, connectionsCheckingInterval: 1_000 };
  const server = createServer(limits, (request, response) => {
    const ending = new AbortController();
    response.once('close', () => ending.abort());
    const ended = answer(request, response, host, ending.signal).catch(() => void response.destroy());
    running.set(ending, ended);
    void ended.finally(() => running.delete(ending));
  });
  // The socket is created by this call, for this user only.
  const mask = process.umask(0o177);
  try {
    server.listen({ path: path.path, exclusive: true });
  } finally {
    process.umask(mask);
  }
  try {
    await once(server, 'listening');
  } catch (error) {
    path.close();
    const { code } = error as NodeJS.ErrnoException;
    throw new StartError(`${file} cannot be created (${code}): the file system must support Unix sockets.`);
  }
  // It must not keep the process alive.
  server.unref();
  return {
    start,
    async close() {
      const closed = once(server, 'close');
      server.close();
      for (const ending of running.keys()) ending.abort();
      await Promise.race([Promise.all(running.values()), sleep(ENDING_MS, undefined, { ref: false })]);
      server.closeAllConnections();
      await closed;
      path.close();
    },
  };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  started: Promise<Host>,
  signal: AbortSignal,
): Promise<void> {
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
  response.writeHead(200, { 'Content-Type': 'application/x-ndjson' }).flushHeaders();
  const gone = new Promise<undefined>((resolve) => addAbortListener(signal, () => resolve(undefined)));
  const host = await Promise.race([started, gone]);
  if (host) await run(call, lines, response, host, signal);
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
  const { version, argv, actor, terminal } = (line ?? {}) as Partial<Call>;
  const isCall = typeof version === 'string' && Array.isArray(argv) && argv.every((one) => typeof one === 'string');
  if (!isCall || typeof terminal?.isTTY !== 'boolean') throw new BadLine('the first line is no command');
  // Calls of other versions, which are refused, may name none.
  const isActor = typeof actor === 'string' && actor.startsWith('cli:') && ACTOR.test(actor.slice(4));
  if (version === VERSION && !isActor) throw new BadLine('it names no actor');
  return line as Call;
}

function refuse(response: ServerResponse, status: number, message: string): void {
  response.writeHead(status, { 'Content-Type': 'text/plain; charset=utf-8', Connection: 'close' }).end(message);
}
