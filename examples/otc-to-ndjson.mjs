#!/usr/bin/env node
// Turns a CSV of Bitcoin-OTC ratings into NDJSON for `credence import`: node examples/otc-to-ndjson.mjs <csv> > actions.ndjson
import { readFileSync } from 'node:fs';
import { parseRatings, toNdjson } from './otc.mjs';

const [file] = process.argv.slice(2);
if (file === undefined) {
  process.stderr.write('usage: node examples/otc-to-ndjson.mjs <csv> > actions.ndjson\n');
  process.exit(2);
}
// The reader may close the pipe, as `head` does.
process.stdout.on('error', () => process.exit(1));
process.stdout.write(toNdjson(parseRatings(readFileSync(file, 'utf8'))));
