// @ts-check
import { parentPort } from 'node:worker_threads';
import { checkKey, verify } from './groth16.mjs';

/** The thread of `verifier.ts`: one question at a time, one answer each. */
parentPort?.on('message', ({ hash, key, proof, signals }) => {
  parentPort?.postMessage(proof === undefined ? checkKey(key) : verify(hash, key, proof, signals));
});
