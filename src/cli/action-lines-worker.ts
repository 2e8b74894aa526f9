import { parentPort, workerData } from 'node:worker_threads';
import { sentError } from '../kernel/thread-error.js';
import { type ActionFile, ActionLines, READ_ERRORS } from './action-lines.js';
import type { Answer, Pass } from './action-lines-thread.js';

/** The thread of `action-lines-thread.ts`: each message asks for the next part of a pass. */
const source = new ActionLines(workerData as ActionFile);
const passes = { check: source.check(), read: source.read() };

let turn = Promise.resolve();
parentPort!.on('message', (pass: Pass) => {
  turn = turn.then(async () => {
    const answer: Answer = await passes[pass].next().then(
      ({ value = null }) => ({ pass, part: value }),
      (error: Error) => ({ pass, failure: sentError(error, READ_ERRORS) }),
    );
    parentPort!.postMessage(answer);
  });
});
