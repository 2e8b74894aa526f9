import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Below those that systems give to outgoing connections (32,768 and up on Linux), also with the 10,000 that a node of a
 * Redis Cluster adds for its bus: what is free stays free while its server is restarted.
 */
const FIRST = 10_000;
const COUNT = 10_000;
const BUS = 10_000;
/** Each process of the runner takes every so-manyth: none is given a port of another whose server is being restarted. */
const LANES = 100;
const LANE = laneOf(process.env['JEST_WORKER_ID']);

/** @param worker the number of a process of the runner, from 1; undefined outside of it */
export function laneOf(worker = '0'): number {
  const lane = Number(worker);
  if (lane < LANES) return lane;
  throw new Error(`Tests can have ports for ${LANES - 1} processes of jest at once, not ${worker}: set --maxWorkers`);
}

const given = new Set<number>();

/** A port on the loopback that nobody listens on, and that this process has not been given before. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + LANES * randomInt(COUNT / LANES) + LANE;
    if (given.has(port) || !(await isFree(port)) || !(await isFree(port + BUS))) continue;
    given.add(port);
    return port;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening');
  } catch {
    return false;
  }
  await once(server.close(), 'close');
  return true;
}
