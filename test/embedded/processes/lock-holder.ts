import { writeSync } from 'node:fs';
import { FileLock } from '../../../src/kernel/file-lock.js';

/** Locks the file given, writes the text given into it, prints a line and waits to be killed. */
const [path, text] = process.argv.slice(2) as [string, string];
const lock = FileLock.take(path);
if (lock) writeSync(lock.fd, text);
console.log(JSON.stringify(lock ? 'locked' : 'refused'));
setInterval(() => lock, 1_000);
