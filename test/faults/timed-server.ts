import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { Server } from '../e2e/server.js';

/** The processor time that a turn of the event loop may use, in the best of several tries: some collect garbage. */
export const MOST_MS = 10;
/**
 * How long the work of turns.mjs takes on a machine that keeps to it. It is timed again after every turn that took longer:
 * where it takes more time at that moment, the turn may, too, in proportion.
 */
const WORK_MS = 10;

/**
 * Starts the built server on a data folder.
 * @returns `longestTurn`: the longest that one turn of its event loop has used the processor since this was asked last,
 * ms; on a slower machine, what it would have been on that one
 */
export async function startTimed(data: string, env: Record<string, string> = {}) {
  // Short: the path of a socket has at most 107 characters.
  const turns = join(tmpdir(), `credence-${randomBytes(6).toString('hex')}.sock`);
  const NODE_OPTIONS = `--max-semi-space-size=32 --import ${new URL('./turns.mjs', import.meta.url)}`;
  const timed = { NODE_OPTIONS, TURNS_SOCKET: turns, TURNS_MOST_MS: String(MOST_MS) };
  const server = await Server.start({ data, env: { ...timed, ...env } });
  const longestTurn = async () => {
    const [most = 0, work = 0] = (await text(connect(turns))).split(' ').map(Number);
    return most / Math.max(1, work / WORK_MS);
  };
  return { server, longestTurn };
}
