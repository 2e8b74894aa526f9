import { parentPort, workerData } from 'node:worker_threads';
import { type ActionFile, ActionLines } from './action-lines.js';
import type { Answer, Pass } from './action-lines-thread.js';

/** The thread of `action-lines-thread.ts`: each message asks for the next part of a pass. */
const source = new ActionLines(workerData as ActionFile);
const passes = { check: source.check(), read: source.read() };

let turn = Promise.resolve();
parentPort!.on('message', (pass: Pass) => {
  turn = turn.then(async () => {
    const { value = null } = await passes[pass].next();
    parentPort!.postMessage({ pass, part: value } satisfies Answer);
  });
});
