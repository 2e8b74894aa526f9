import { randomUUID } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { bodyHash } from '../commands/context.js';
import { BODY_LIMIT, parseJson } from '../http/json-body.js';
import { readBody } from '../http/validation.js';
import { hashOf } from '../kernel/hash.js';
import { type Line, readLines } from '../kernel/lines.js';
import { type FieldError, Problem } from '../kernel/problems.js';
import { aaveAction } from '../features/ingestion/aave-file.js';
import { type Action, actionStream } from '../features/relay/domain/relay.js';
import { RelayActionDto, toAction } from '../features/relay/relay.dto.js';
import { CommandFailed } from './exit.js';

/** Lines that are recorded together. */
const BATCH = 1_024;
/** All wrong lines are counted; at most this many are described. */
export const MAX_DESCRIBED = 20;
/** Lines without an external_id that a file may have: each takes about 100 bytes of memory. */
const MOST_WITHOUT_ID = 10_000_000;
const TOO_MANY = `a file may have at most ${MOST_WITHOUT_ID.toLocaleString('en')} lines without an external_id`;

/** What a line of a file is: its JSON to an action. They throw a Problem for an invalid line. */
const FORMATS = {
  /** A body of `POST /api/decision-relay`. */
  relay: (json: unknown, now: number): Action => toAction(readBody(RelayActionDto, json), now),
  aave: aaveAction,
};
export type Format = keyof typeof FORMATS;

interface LineError extends FieldError {
  line: number;
}

export interface CheckedLines {
  /** Lines that are not blank. */
  lines: number;
  /** Invalid lines. If there are any, nothing is written. */
  wrong: number;
  /** The first of the wrong lines. */
  errors: LineError[];
}

/** A valid line, with what is needed to record its action. */
export interface ActionLine {
  number: number;
  action: Action;
  /** SHA-256 of the action. */
  hash: string;
  stream: string;
}

/** The two passes over a file of actions: `check` before `read`. */
export class ActionLines {
  /** The lines without an external_id that were read, by the first 16 bytes of the action's digest. */
  private readonly equal = new Map<string, number>();

  /** What is later than this has not occurred yet, ms. */
  private readonly now = Date.now();

  constructor(
    private readonly path: string,
    private readonly format: Format = 'relay',
  ) {}

  /** Reads the whole file. @param onProgress bytes of the file that were read, and all */
  async check(onProgress: (done: number, total: number) => void = () => undefined): Promise<CheckedLines> {
    const { size } = await stat(this.path);
    const checked: CheckedLines = { lines: 0, wrong: 0, errors: [] };
    let withoutId = 0;
    for await (const { lines, bytesRead } of readLines(this.path, BODY_LIMIT)) {
      checked.lines += lines.length;
      for (const line of lines) {
        try {
          const { external_id } = this.actionOf(line);
          if (external_id === null && ++withoutId > MOST_WITHOUT_ID) throw new Problem('payload_too_large', TOO_MANY);
        } catch (error) {
          if (!(error instanceof Problem)) throw error;
          checked.wrong++;
          checked.errors.push(...describe(line.number, error).slice(0, MAX_DESCRIBED - checked.errors.length));
        }
      }
      onProgress(bytesRead, size);
    }
    return checked;
  }

  /** Once, and only if nothing is wrong. A batch at a time. @throws CommandFailed if the file has changed */
  async *read(): AsyncGenerator<ActionLine[]> {
    for await (const { lines } of readLines(this.path, BODY_LIMIT)) {
      for (let from = 0; from < lines.length; from += BATCH) {
        yield lines.slice(from, from + BATCH).map((line) => this.valid(line));
      }
    }
  }

  private valid(line: Line): ActionLine {
    try {
      const action = this.actionOf(line);
      const hash = bodyHash(action);
      const identity = action.external_id === null ? this.identityOf(hash) : null;
      return { number: line.number, action, hash, stream: actionStream(action, identity, randomUUID) };
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      throw new CommandFailed(
        `Line ${line.number} is not valid any more: the file has changed since it was checked. The lines before it may be recorded; run the command again.`,
      );
    }
  }

  /**
   * Distinct for equal lines, and the same in every run over the file: the hash of the action and of its number among
   * equal lines. @param hash SHA-256 of the action, in hex
   */
  private identityOf(hash: string): string {
    const digest = Buffer.from(hash, 'hex').toString('latin1', 0, 16);
    const number = (this.equal.get(digest) ?? 0) + 1;
    this.equal.set(digest, number);
    return hashOf('import', hash, String(number));
  }

  /** @throws Problem for a line that the relay would refuse */
  private actionOf({ bytes }: Line): Action {
    if (bytes === null) throw new Problem('payload_too_large', `the line is longer than ${BODY_LIMIT} bytes`);
    return FORMATS[this.format](parseJson(bytes), this.now);
  }
}

export function describe(line: number, problem: Problem): LineError[] {
  const { code, message } = problem;
  const errors = problem.extra.errors ?? [{ pointer: '', code, message }];
  return errors.map((error) => ({ line, ...error, message: error.message.replace(/\bbody\b/, 'line') }));
}
