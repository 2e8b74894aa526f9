import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { secp256k1 } from '@noble/curves/secp256k1';
import { privateKeyToAccount } from 'viem/accounts';
import { prepareFolder } from '../../src/app/start-failure.js';
import { verify } from '../../src/credentials/jws.js';
import { ApiKeys } from '../../src/credentials/api-keys.js';
import type { Issuer } from '../../src/features/trove/domain/issuer.js';
import { type TroveRecord, statementOf } from '../../src/features/trove/domain/record.js';
import { failureOf } from '../../src/features/trove/proofs.js';
import { loadConfig } from '../../src/kernel/config.js';
import { Logger } from '../../src/kernel/logger.js';
import { checkKey } from '../../src/features/verifications/groth16.mjs';
import { type Service, startService } from '../policies/service.fixture.js';
import { keyOf } from '../verifications/proofs.fixture.js';

/** Small openings, each of which somebody could have used. */

let folder: string;
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'credence-hygiene-'))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test('a data folder that is created is readable to its user only', () => {
  const umask = process.umask(0o000);
  try {
    prepareFolder(join(folder, 'a', 'data'));
    expect(statSync(join(folder, 'a', 'data')).mode & 0o777).toBe(0o700);
  } finally {
    process.umask(umask);
  }
});

describe('in production', () => {
  const environment = process.env['NODE_ENV'];
  beforeEach(() => void (process.env['NODE_ENV'] = 'production'));
  afterEach(() => void (process.env['NODE_ENV'] = environment));

  test('there is no development key, and none of an earlier start is accepted', () => {
    const config = loadConfig({ CREDENCE_DATA: folder });
    process.env['NODE_ENV'] = 'test';
    const earlier = new ApiKeys(config, new Logger('error')).createdDevelopmentKey!;
    expect(earlier).toMatch(/^credence_/);
    process.env['NODE_ENV'] = 'production';
    const keys = new ApiKeys(config, new Logger('error'));
    expect([keys.createdDevelopmentKey, keys.find(earlier)]).toEqual([undefined, undefined]);
    rmSync(join(folder, 'dev-api-key'));
    expect(new ApiKeys(config, new Logger('error')).createdDevelopmentKey).toBeUndefined();
    expect(existsSync(join(folder, 'dev-api-key'))).toBe(false);
  });
});

describe('the verification of eligibility tokens', () => {
  const getters = {
    get jwks(): never {
      throw new Error('as if the caller’s key set could not be read');
    },
  };
  test.each<[string, unknown]>([
    ['no options', undefined],
    ['null', null],
    ['no key set', {}],
    ['a key set of null', { jwks: null }],
    ['keys that are no list', { jwks: { keys: 7 } }],
    ['keys of null', { jwks: { keys: [null] } }],
    ['options that throw', getters],
  ])('does not throw with %s', (_what, options) => {
    const tokens: unknown[] = [
      undefined,
      null,
      7,
      '',
      'a.b.c',
      {},
      Symbol('token'),
      'eyJhbGciOiJFZERTQSIsImtpZCI6ImEifQ.e30.AAAA',
    ];
    for (const token of tokens) expect(verify(token, options as never)).toMatchObject({ active: false });
  });
});

describe('a trove', () => {
  let service: Service;
  beforeAll(async () => void (service = await startService()));
  afterAll(() => service.close());
  const record = {
    tris_id: 'tris:alice',
    record_type: 'milestone',
    metric: 'creative_release',
    criticality: 'Low',
    content_hash: 'ab'.repeat(32),
    occurred_at: '2026-01-01T00:00:00Z',
  };

  test.each([
    ['a control character', 'a\u0007b'],
    ['a line break', 'a\nb'],
    ['a change of direction', 'invoice\u202efdp.exe'],
    ['an isolate', 'a\u2066b'],
    ['a character without width', 'pay\u200bpal'],
    ['a byte order mark', '\ufeffa'],
    ['a line separator', 'a\u2028b'],
  ])('refuses a title with %s', async (_what, title) => {
    const { status, json } = await service.post('/v1/trove/submit', { ...record, title });
    expect([status, json.errors?.[0].pointer]).toEqual([400, '/title']);
  });

  test('accepts titles of any language', async () => {
    for (const [i, title] of ['Größe', '日本語', 'עברית', 'हिन्दी', 'No 1 😀'].entries()) {
      const content_hash = createHash('sha256').update(String(i)).digest('hex');
      expect((await service.post('/v1/trove/submit', { ...record, content_hash, title })).status).toBe(202);
    }
  });

  test.each([
    ['of order 1', '0100000000000000000000000000000000000000000000000000000000000000'],
    ['of order 2', 'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f'],
    ['of order 4', '0000000000000000000000000000000000000000000000000000000000000000'],
    ['of order 8', '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05'],
    ['that is no point', '0200000000000000000000000000000000000000000000000000000000000000'],
  ])('refuses an Ed25519 key %s', async (_what, hex) => {
    const ed25519 = Buffer.from(hex, 'hex').toString('base64url');
    const body = { issuer_id: 'weak', platform_id: 'lender', ed25519 };
    const { status, json } = await service.post('/v1/trove-issuers', body);
    expect([status, `${json.errors?.[0].pointer} ${json.errors?.[0].code}`]).toEqual([400, '/ed25519 weak_key']);
  });
});

test('a proof whose s is in the upper half is no second proof', async () => {
  const account = privateKeyToAccount(`0x${'11'.repeat(32)}`);
  const record = {
    tris_id: 'tris:alice',
    record_type: 'milestone',
    metric: 'creative_release',
    criticality: 'Low',
    content_hash: 'ab'.repeat(32),
    occurred_at: Date.parse('2026-01-01T00:00:00Z'),
    agent_id: null,
    operator_tris: null,
  } as unknown as TroveRecord;
  const issuer = {
    issuer_id: 'i',
    platform_id: 'p',
    ed25519: null,
    address: account.address,
    retired: false,
  } as Issuer;
  const signature = await account.signMessage({ message: statementOf(record) });
  const [r, s, v] = [signature.slice(2, 66), signature.slice(66, 130), signature.slice(130)];
  const high = (secp256k1.CURVE.n - BigInt(`0x${s}`)).toString(16).padStart(64, '0');
  const failure = (text: string) =>
    failureOf(record, { type: 'eip191', issuer: 'i', signature: text, attestation: null } as never, issuer, Date.now());
  expect(await failure(signature)).toBeNull();
  expect(await failure(`0x${r}${high}${v === '1b' ? '1c' : '1b'}`)).toBe('signature_invalid');
});

test('a verification key whose parts are related is refused: proofs under it can be forged', () => {
  const key = keyOf('kyh');
  const P = 21888242871839275222246405745257275088696311157297823662689037894645226208583n;
  const opposite = (numbers: readonly string[]) => numbers.map((n) => String((P - BigInt(n)) % P));
  const negatedG2 = ([x, y, z]: any) => [x, opposite(y), z];
  const negatedG1 = ([x, y, z]: any) => [x, opposite([y])[0], z];
  const where = (change: object) => (checkKey({ ...key, ...change } as never) as { pointer?: string }).pointer;
  expect(where({})).toBeUndefined();
  expect(where({ vk_delta_2: negatedG2(key.vk_gamma_2) })).toBe('/vk_delta_2');
  expect(where({ vk_delta_2: key.vk_beta_2 })).toBe('/vk_delta_2');
  expect(where({ vk_gamma_2: key.vk_beta_2 })).toBe('/vk_gamma_2');
  expect(where({ vk_gamma_2: negatedG2(key.vk_beta_2) })).toBe('/vk_gamma_2');
  expect(where({ IC: key.IC.with(2, key.IC[1]!) })).toBe('/IC/2');
  expect(where({ IC: key.IC.with(2, negatedG1(key.IC[1]!) as never) })).toBe('/IC/2');
});
