import { once } from 'node:events';
import { realpathSync } from 'node:fs';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { drained } from '../kernel/drained.js';
import { socketPath } from '../kernel/socket-path.js';
import { StartError } from '../kernel/start-error.js';
import { VERSION } from '../kernel/version.js';
import type { FolderContext } from './cli.js';
import { type Call, PATH, SOCKET, type ToCaller, type ToOwner, jsonLines, socketAt } from './owner-socket.js';

/** A server that runs answers within a few; one that is stopped (SIGSTOP) does not, ms. */
const ANSWER_MS = 30_000;
/** After how long the caller is told that it waits for that, ms. */
const TOLD_MS = 3_000;
/** The longest line of an answer, in characters. */
const MAX_LINE = 2 ** 30;

/** What a command needs of its caller while another process carries it out. */
export interface Caller extends Pick<FolderContext, 'actor' | 'value' | 'items' | 'io' | 'write'> {
  argv: readonly string[];
}

/**
 * Lets the server that owns a folder carry out a command.
 * @returns undefined if no server listens in the folder
 * @throws StartError if the server cannot be reached, refuses it, or goes away
 */
export async function callOwner(data: string, caller: Caller) {
  const connected = await connect(data);
  if (!connected) return undefined;
  const { request, response } = connected;
  const send = (line: Call | ToOwner) => request.write(`${JSON.stringify(line)}\n`);
  const { argv, actor, value, io } = caller;
  const { isTTY = false, columns = null } = io.stderr;
  send({ version: VERSION, argv, actor, terminal: { isTTY, columns }, value });
  const interrupt = () => {
    // A second one ends this process, and with it the command.
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
    send({ interrupt: true });
  };
  process.on('SIGINT', interrupt).on('SIGTERM', interrupt);
  const tell = () => io.stderr.write(`Waiting for the service that owns ${data}, which has not answered yet.\n`);
  const told = setTimeout(tell, TOLD_MS);
  let sending: Promise<void> | undefined;
  try {
    const answer = await response.finally(() => clearTimeout(told));
    if (answer.statusCode !== 200) throw new StartError(await text(answer));
    sending = sendItems(caller.items, request, send);
    return await show(answer, caller);
  } finally {
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
    // What the command has not read is not sent.
    request.destroy();
    await sending;
  }
}

/** Whether a server listens in the folder. @throws StartError if its socket cannot be connected to */
export async function isServed(data: string): Promise<boolean> {
  const connected = await connect(data);
  connected?.request.destroy();
  return connected !== undefined;
}

async function show(answer: IncomingMessage, { io, write }: Caller) {
  try {
    for await (const line of jsonLines(answer, MAX_LINE) as AsyncGenerator<ToCaller>) {
      if ('exit' in line) return line;
      if ('write' in line) await write(line.write);
      else if ('out' in line) io.stdout.write(line.out);
      else io.stderr.write(line.err);
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ECONNRESET') throw error;
  }
  throw new StartError('The service that carried out the command has ended: start it, and run the command again.');
}

async function sendItems(
  items: AsyncIterable<unknown>,
  request: ClientRequest,
  send: (line: ToOwner) => boolean,
): Promise<void> {
  try {
    for await (const item of items) {
      if (request.destroyed) return;
      if (!send({ item })) await drained(request);
    }
    if (!request.destroyed) send({ end: true });
  } catch (error) {
    if (!request.destroyed) send({ failure: (error as Error).message });
  }
}

async function connect(data: string) {
  const folder = realpathSync(data);
  const file = join(folder, SOCKET);
  const found = socketAt(file);
  if (!found) return undefined;
  const user = process.getuid?.() ?? 0;
  if (user !== 0 && found.uid !== user) {
    throw new StartError(`${file} belongs to another user: run this as the user who runs the service.`);
  }
  const { path, close } = socketPath(folder, SOCKET);
  // The server must not close the connection when it has answered: what is still sent to it then would fail, and the
  // answer be lost.
  const headers = { Connection: 'keep-alive' };
  const call = request({ socketPath: path, method: 'POST', path: PATH, headers, agent: false });
  try {
    call.flushHeaders();
    const [socket] = await once(call, 'socket');
    if (socket.connecting) await once(socket, 'connect');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ECONNREFUSED') return undefined;
    const remedy =
      code === 'EAGAIN' ? 'the service is stopped or overloaded' : 'run this as the user who runs the service';
    throw new StartError(`${file} cannot be connected to (${code}): ${remedy}.`);
  } finally {
    close();
  }
  const timer = setTimeout(() => {
    call.destroy(new StartError(`The service that owns ${data} does not answer: is it stopped or overloaded?`));
  }, ANSWER_MS);
  // Whoever reads the answer gets the errors after its beginning.
  call.on('error', () => undefined);
  const response = once(call, 'response')
    .then(([answer]) => answer as IncomingMessage)
    .catch((error: NodeJS.ErrnoException) => {
      if (error instanceof StartError) throw error;
      throw new StartError(`The service that owns ${data} closed the connection (${error.code}).`);
    })
    .finally(() => clearTimeout(timer));
  response.catch(() => undefined);
  return { request: call, response };
}
