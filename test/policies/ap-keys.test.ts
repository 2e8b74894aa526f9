import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { verify } from '../../src/credentials/jws.js';
import { loadConfig } from '../../src/kernel/config.js';
import { ANNOUNCED_MS, LAST_TOKEN_MS } from '../../src/credentials/key-file.js';
import { SigningKeys, signingKeyFile } from '../../src/credentials/signing-keys.js';
import { EligibilityTokens } from '../../src/features/access/tokens.js';
import type { PositionGate } from '../../src/kernel/positions.js';
import type { PublicAddress } from '../../src/kernel/public-address.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';

const START = Date.parse('2026-01-01T00:00:00Z');
const CLAIMS = {
  iss: 'https://credence.example',
  sub: 'tris:alice',
  jti: '00000000-0000-4000-8000-000000000000',
  iat: START / 1000,
  exp: START / 1000 + 86_400,
  policy_id: 'AP_TEST_V1',
  policy_hash: 'a'.repeat(64),
  as_of: '2026-01-01T00:00:00.000Z',
  position: 'log.1',
  lens: { policy_id: null, content_hash: 'b'.repeat(64) },
  model: { id: 'disc-1', hash: 'c'.repeat(64) },
};
const TYPE = 'eligibility+jwt';

async function withKeys(test: (keys: SigningKeys, at: (ms: number) => void, data: string) => void | Promise<void>) {
  const folder = await temporaryFolder();
  let now = START;
  const config = loadConfig({ CREDENCE_DATA: folder.path });
  const keys = new SigningKeys(config, undefined, () => now);
  try {
    await test(keys, (ms) => void (now = ms), folder.path);
  } finally {
    await folder.remove();
  }
}

describe('rotating the signing keys', () => {
  test('a new key is published at once and signs ten minutes later; the old one verifies until its tokens have expired', () =>
    withKeys(async (keys, at, data) => {
      const file = signingKeyFile(loadConfig({ CREDENCE_DATA: data }));
      const first = keys.current.kid;
      const old = await keys.sign(CLAIMS, TYPE);
      const { kid: second, signs_from } = await file.rotate(START, ANNOUNCED_MS);
      expect(signs_from).toBe(START + ANNOUNCED_MS);

      at(START + 1_001);
      expect(keys.jwks.keys.map(({ kid }) => kid)).toEqual([first, second]);
      expect(JSON.stringify(keys.jwks)).not.toContain('"d"');
      expect(keys.current.kid).toBe(first);
      at(signs_from - 1);
      expect(keys.current.kid).toBe(first);
      await expect(file.rotate(signs_from - 1, ANNOUNCED_MS)).rejects.toThrow('already announced');

      at(signs_from);
      expect(keys.current.kid).toBe(second);
      const young = await keys.sign(CLAIMS, TYPE);
      expect(young).not.toBe(old);
      for (const token of [old, young]) {
        expect(verify(token, { jwks: keys.jwks, now: signs_from })).toMatchObject({ active: true });
      }
      // A decision that named the first key is signed with it again, to the byte.
      expect(keys.signsWith(first)).toBe(true);
      expect(await keys.sign(CLAIMS, TYPE, first)).toBe(old);

      const dead = signs_from + LAST_TOKEN_MS;
      expect(file.list(signs_from)).toEqual([
        { kid: first, status: 'retired', signs_from: null, prunable_from: new Date(dead).toISOString() },
        { kid: second, status: 'signing', signs_from: new Date(signs_from).toISOString(), prunable_from: null },
      ]);
      expect(await file.prune(dead - 1)).toEqual([]);
      expect(await file.prune(dead)).toEqual([first]);
      at(dead);
      expect(keys.jwks.keys.map(({ kid }) => kid)).toEqual([second]);
      expect(keys.signsWith(first)).toBe(false);
      expect(verify(old, { jwks: keys.jwks, now: dead })).toMatchObject({ reason: 'eligibility_signature' });
    }));

  test('a token of a key that no longer signs verifies if the clock of its process may have been behind', () =>
    withKeys(async (keys, at, data) => {
      const first = keys.current.kid;
      const { signs_from } = await signingKeyFile(loadConfig({ CREDENCE_DATA: data })).rotate(START, ANNOUNCED_MS);
      at(signs_from + 70_000);
      expect(keys.current.kid).not.toBe(first);
      const address = { url: CLAIMS.iss } as PublicAddress;
      const tokens = new EligibilityTokens(keys, address, {} as PositionGate, () => signs_from + 70_000);
      const signed = (seconds: number) => keys.sign({ ...CLAIMS, iat: signs_from / 1000 + seconds }, TYPE, first);
      expect(tokens.verify(await signed(60), {})).toMatchObject({ active: true });
      expect(tokens.verify(await signed(61), {})).toMatchObject({ active: false, reason: 'eligibility_signature' });
    }));

  test('without times the first private key signs, and a key without its private part is published only', () =>
    withKeys(async (keys, at, data) => {
      const file = signingKeyFile(loadConfig({ CREDENCE_DATA: data }));
      const set = JSON.parse(readFileSync(file.path, 'utf8'));
      await file.rotate(START, 0);
      const [mine, theirs] = JSON.parse(readFileSync(file.path, 'utf8')).keys;
      delete theirs.d;
      delete theirs.signs_from;
      writeFileSync(file.path, JSON.stringify({ keys: [theirs, mine] }));
      at(START + 5_000);
      expect(keys.current.kid).toBe(set.keys[0].kid);
      expect(keys.jwks.keys.map(({ kid }) => kid)).toEqual([theirs.kid, mine.kid]);
      expect(file.list(START).map(({ status }) => status)).toEqual(['published', 'signing']);
    }));

  test('the keys read before stay valid if the file cannot be used', () =>
    withKeys(async (keys, at, data) => {
      const { kid } = keys.current;
      writeFileSync(join(data, 'signing-keys.json'), '{"keys": []}');
      at(START + 5_000);
      expect(keys.current.kid).toBe(kid);
    }));

  test('a new key is published also when the clock is set back', () =>
    withKeys(async (keys, at, data) => {
      expect(keys.jwks.keys).toHaveLength(1);
      await signingKeyFile(loadConfig({ CREDENCE_DATA: data })).rotate(START, ANNOUNCED_MS);
      at(START - 86_400_000);
      expect(keys.jwks.keys).toHaveLength(2);
    }));
});

describe('the verifier', () => {
  const base64url = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const decode = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString());

  test('accepts no forgery', () =>
    withKeys(async (keys, _at, data) => {
      const token = await keys.sign(CLAIMS, TYPE);
      const [header, payload, signature] = token.split('.') as [string, string, string];
      const { kid } = decode(header);
      const other = new SigningKeys(loadConfig({ CREDENCE_DATA: join(data, 'other') }), undefined, () => START);
      const reason = (forged: unknown, options = {}) => {
        const result = verify(forged, { jwks: keys.jwks, now: START, ...options });
        return result.active ? 'active' : result.reason;
      };
      expect(reason(token)).toBe('active');

      const head = (change: object) => `${base64url({ ...decode(header), ...change })}.${payload}.${signature}`;
      const malformed = [
        undefined,
        null,
        7,
        {},
        [token],
        '',
        'a'.repeat(100_000),
        `${header}.${payload}`,
        `${header}.${payload}.`,
        `${token}.x`,
        ` ${token}`,
        `${token}=`,
        `${header}.${payload}.${signature.slice(0, -1)}+`,
        head({ alg: 'none' }),
        `${base64url({ alg: 'none', typ: TYPE, kid })}.${payload}.`,
        head({ alg: 'HS256' }),
        head({ alg: 'ES256' }),
        head({ alg: ['EdDSA'] }),
        head({ typ: 'JWT' }),
        head({ typ: undefined }),
        head({ crit: ['exp'] }),
        head({ b64: false }),
        `${base64url(null)}.${payload}.${signature}`,
        await keys.sign(CLAIMS, 'credence-metrics+jws'),
        await keys.sign({ ...CLAIMS, exp: 'tomorrow' }, TYPE),
        await keys.sign({ ...CLAIMS, exp: 1e300 }, TYPE),
        await keys.sign({ sub: 'tris:alice' }, TYPE),
        await keys.sign({ ...CLAIMS, aud: ['a', 'b'] }, TYPE),
        await keys.sign({ ...CLAIMS, more: 'a'.repeat(9_000) }, TYPE),
      ];
      expect(malformed.map((forged) => reason(forged))).toEqual(malformed.map(() => 'eligibility_malformed'));

      const unsigned = [
        `${header}.${base64url({ ...CLAIMS, sub: 'tris:mallory' })}.${signature}`,
        `${header}.${payload}.${Buffer.alloc(64).toString('base64url')}`,
        `${header}.${payload}.${Buffer.alloc(63).toString('base64url')}`,
        head({ kid: undefined }),
        head({ kid: 'other' }),
        head({ kid: '__proto__' }),
        head({ jwk: other.jwks.keys[0] }),
        await other.sign(CLAIMS, TYPE),
        `${base64url({ alg: 'EdDSA', kid, typ: TYPE })}.${(await other.sign(CLAIMS, TYPE)).split('.').slice(1).join('.')}`,
      ];
      expect(unsigned.map((forged) => reason(forged))).toEqual(unsigned.map(() => 'eligibility_signature'));
      expect(reason(token, { jwks: { keys: [] } })).toBe('eligibility_signature');
      expect(reason(token, { jwks: { keys: [{ kty: 'OKP', crv: 'Ed25519', x: 'AA', kid }] } })).toBe(
        'eligibility_signature',
      );

      expect(reason(token, { policy: 'AP_OTHER_V1' })).toBe('eligibility_policy');
      expect(reason(token, { policy: 'AP_TEST_V1' })).toBe('active');
      expect(reason(token, { issuer: 'https://mallory.example' })).toBe('eligibility_issuer');
      expect(reason(token, { audience: 'app' })).toBe('eligibility_audience');
      const bound = await keys.sign({ ...CLAIMS, aud: 'app' }, TYPE);
      expect([reason(bound), reason(bound, { audience: 'app' }), reason(bound, { audience: 'other' })]).toEqual([
        'eligibility_audience',
        'active',
        'eligibility_audience',
      ]);
      expect(reason(token, { now: START - 60_000 })).toBe('active');
      expect(reason(token, { now: START - 61_000 })).toBe('eligibility_not_yet_valid');
      expect(reason(token, { now: CLAIMS.exp * 1000 - 1 })).toBe('active');
      expect(reason(token, { now: CLAIMS.exp * 1000 })).toBe('eligibility_expired');
    }));
});
