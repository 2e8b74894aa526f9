import { createHash } from 'node:crypto';
import { leafOf as leafOfProduct } from '../../src/kernel/merkle.js';
import { blocks, read, section } from './markdown.js';

/** The example of docs/decisions/0034: what a stranger computes from a line of an export. */

const [line, results] = blocks(section(read('docs/decisions/0034-leaf-of-the-log.md'), 'Example')).map(
  ({ text }) => text,
) as [string, string];

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

function leafOf(exported: string) {
  const { id, stream, revision, type, data, metadata } = JSON.parse(exported);
  const {
    schema,
    occurred_at,
    recorded_at,
    salt = '0'.repeat(32),
    index_version = 1,
    body_hash,
    ...envelope
  } = metadata;
  const { correlation_id, actor, idempotency = null, traceparent = null, index, size, ...more } = envelope;
  const salts = sha256(`credence leaf 1 ${salt}`);
  const first = [salts.slice(0, 32), stream, revision, correlation_id, actor, idempotency, traceparent];
  const others = Object.keys(more).sort();
  const who = sha256(JSON.stringify([...first, index, size, ...others.map((name) => [name, more[name]])]));
  const what = sha256(JSON.stringify([salts.slice(32), id, body_hash, schema, occurred_at, data]));
  const leaf = sha256(`\0${JSON.stringify([index_version, type, recorded_at, who, what])}`);
  return { salts, envelope: who, data: what, leaf };
}

test('the record states the hashes of its example', () => {
  const stated = Object.fromEntries(
    [...results.matchAll(/^(\w+) +([0-9a-f]{64})$/gm)].map(([, name, hash]) => [name, hash]),
  );
  expect(stated).toEqual(leafOf(line));
  const unsalted = leafOf(line.replace(/,"salt":"\w+"/, '')).leaf;
  expect(results).toContain(`without a salt, the leaf is ${unsalted}`);
});

test('the service computes the same leaves', () => {
  const events = [
    line,
    line.replace(/,"salt":"\w+"/, ''),
    line.replace('"index":0', '"tenant":"a\\n","index":0,"box":{"b":1,"a":[]}'),
    line.replace('key:lender', 'key:Zoë \\"\\ud800'),
    line.replace('"index":0', '"idempotency":"i","traceparent":"t","index_version":2,"index":0'),
  ];
  for (const event of events) {
    expect(Buffer.from(leafOfProduct(JSON.parse(event)), 'base64url').toString('hex')).toBe(leafOf(event).leaf);
  }
  expect(new Set(events).size).toBe(events.length);
});
