import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Connection } from '../../src/stores/eventstoredb/connection.js';
import { NoAnswer } from '../../src/stores/eventstoredb/pulse.js';
import { makeCertificates } from '../servers/certificates.js';
import { freePort } from '../servers/ports.js';

test('a certificate file that is missing while it is replaced is said once, and read again when it is back', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'credence-connection-'));
  const { authority } = makeCertificates(folder);
  const file = join(folder, 'replaced.crt');
  await copyFile(authority, file);
  const said: string[] = [];
  const url = `esdb://user:secret@127.0.0.1:${await freePort()}?tls=true&tlsCAFile=${file}`;
  const connection = new Connection(url, { answerMs: 100, callMs: 100, patienceMs: 100 }, (line) => said.push(line));
  try {
    const { link } = connection;
    await rm(file);
    for (let n = 0; n < 3; n++) connection.renew(connection.link);
    expect(said).toEqual([expect.stringMatching(/^EVENTSTORE_URL cannot be used: .*certificate file/)]);
    expect(said.join()).not.toContain('secret');
    expect(connection.link).toBe(link);
    await copyFile(authority, file);
    connection.renew(link);
    expect(connection.link).not.toBe(link);
  } finally {
    connection.close();
    await rm(folder, { recursive: true });
  }
});

test('the first check of the log is repeated if it gets no answer', async () => {
  const url = `esdb://127.0.0.1:${await freePort()}?tls=false`;
  const connection = new Connection(url, { answerMs: 100, callMs: 100, patienceMs: 60_000 }, () => undefined);
  let checks = 0;
  try {
    await connection.guard(() => (++checks === 1 ? Promise.reject(new NoAnswer('silence')) : Promise.resolve()));
    expect(checks).toBe(2);
  } finally {
    connection.close();
  }
});

test('a caller waits for an answer no longer than its patience, however long one attempt takes', async () => {
  const url = `esdb://127.0.0.1:${await freePort()}?tls=false`;
  const connection = new Connection(url, { answerMs: 60_000, callMs: 60_000, patienceMs: 200 }, () => undefined);
  try {
    const answer = connection.persist(() => new Promise(() => undefined));
    await expect(answer).rejects.toThrow('gives no definite answer: no answer within 0.2 s');
  } finally {
    connection.close();
  }
});
