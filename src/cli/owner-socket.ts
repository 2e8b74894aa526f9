import { type Stats, lstatSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { StartError } from '../kernel/start-error.js';
import type { ExitCode } from './exit.js';

/**
 * How a command reaches the process that owns its folder: one HTTP request on a Unix socket in the folder, `POST
 * /commands`. Both bodies are lines of JSON. They are sent and received at the same time, as fast as the other side reads.
 */

export const SOCKET = 'owner.sock';
export const PATH = '/commands';

/** The first line of the request: the command as it was called. */
export interface Call {
  /** Of the caller's build. */
  version: string;
  argv: readonly string[];
  /** Who called it, for what it records. */
  actor: string;
  /** Standard error of the caller, where progress is shown. */
  terminal: { isTTY: boolean; columns: number | null };
  /** What the caller has read for the command. */
  value: unknown;
}

/** A further line of the request. */
export type ToOwner = { item: unknown } | { end: true } | { failure: string } | { interrupt: true };

/** The last line of the answer: the exit code, and whether the output of the command is complete. */
export type Ended = { exit: ExitCode; complete: boolean };

/** A line of the answer. */
export type ToCaller = { out: string } | { err: string } | { write: string } | Ended;

/** What is known of the socket; undefined if there is none. @throws StartError if something else has its name */
export function socketAt(file: string): Stats | undefined {
  const found = lstatSync(file, { throwIfNoEntry: false });
  if (found && !found.isSocket()) {
    throw new StartError(`${file} is no socket, and Credence did not create it: remove it.`);
  }
  return found;
}

/** A line is longer than allowed, or no JSON. */
export class BadLine extends Error {
  override readonly name = 'BadLine';
}

/** @throws BadLine */
export async function* jsonLines(input: Readable, most: number): AsyncGenerator<unknown> {
  let rest = '';
  input.setEncoding('utf8');
  for await (const chunk of input as AsyncIterable<string>) {
    const lines = chunk.split('\n');
    // Joined once, not for each chunk of a long line.
    lines[0] = rest + lines[0]!;
    rest = lines.pop()!;
    for (const line of lines) yield parsed(line);
    if (rest.length > most) throw new BadLine(`a line is longer than ${most} characters`);
  }
  if (rest !== '') throw new BadLine('the last line is cut off');
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    throw new BadLine('a line is no JSON');
  }
}
