import { createHmac, generateKeyPairSync, sign as signBytes } from 'node:crypto';
import { verify as verifyEligibility } from '../../src/credentials/jws.js';
import { SigningKeys } from '../../src/credentials/signing-keys.js';
import { send } from '../http/client.js';
import { type Service, relay, startService } from '../policies/service.fixture.js';
import { type Tokens, bearer, call, claim, codeOf, newAccount } from './wallet.js';

let service: Service;
let tokens: Tokens & { tris_id: string };
beforeAll(async () => {
  service = await startService();
  tokens = await claim(service, newAccount());
});
afterAll(() => service.close());

const list = (headers: Record<string, string | string[]>, trisId = tokens.tris_id) =>
  send(service.port, 'GET', `/v1/wallets/${trisId}`, { headers });
const withToken = (token: string) => list({ authorization: `Bearer ${token}` });
const decode = (token: string, part: number) =>
  JSON.parse(Buffer.from(token.split('.')[part]!, 'base64url').toString()) as Record<string, unknown>;
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

test('an access token is a credential; the scheme is spelled in any case', async () => {
  expect((await withToken(tokens.access_token)).status).toBe(200);
  expect((await list({ authorization: `bearer ${tokens.access_token}` })).status).toBe(200);
});

test('an access token names the wallet, the audience and the expiry, with its own type', () => {
  const { access_token, wallet, tris_id } = tokens;
  expect(decode(access_token, 0)).toEqual({ alg: 'EdDSA', kid: expect.any(String), typ: 'session+jwt' });
  const claims = decode(access_token, 1);
  expect(claims).toEqual({
    iss: `http://127.0.0.1:${service.port}`,
    sub: tris_id,
    aud: 'credence-session',
    iat: expect.any(Number),
    exp: (claims['iat'] as number) + 300,
    jti: expect.any(String),
    sid: expect.stringMatching(/^[0-9a-f]{64}$/),
    wallet: wallet.toLowerCase(),
    chain_id: null,
    tris_id,
  });
});

describe('is refused with a code of its own', () => {
  const keys = () => service.app.get(SigningKeys);
  const signed = (changes: Record<string, unknown>, typ = 'session+jwt') =>
    keys().sign({ ...(decode(tokens.access_token, 1) as object), ...changes } as never, typ);
  const now = () => Math.floor(Date.now() / 1000);
  const parts = () => tokens.access_token.split('.') as [string, string, string];

  test.each<[string, string, () => string | Promise<string>]>([
    ['no JWT', 'token_malformed', () => 'abc'],
    ['two parts', 'token_malformed', () => parts().slice(0, 2).join('.')],
    ['9 KB', 'token_malformed', () => 'a'.repeat(9_000)],
    ['a header that is no JSON', 'token_malformed', () => `e30x.${parts()[1]}.${parts()[2]}`],
    ['alg none', 'token_algorithm', () => `${encode({ alg: 'none', typ: 'session+jwt' })}.${parts()[1]}.`],
    [
      'HS256 with the public key',
      'token_algorithm',
      () => {
        const input = `${encode({ alg: 'HS256', typ: 'session+jwt', kid: keys().current.kid })}.${parts()[1]}`;
        return `${input}.${createHmac('sha256', keys().jwks.keys[0]!.x).update(input).digest('base64url')}`;
      },
    ],
    [
      'changed claims',
      'token_signature',
      () => `${parts()[0]}.${encode({ ...decode(parts().join('.'), 1), tris_id: 'tris:x' })}.${parts()[2]}`,
    ],
    [
      'the signature of another key under our kid',
      'token_signature',
      () => {
        const input = `${parts()[0]}.${parts()[1]}`;
        const { privateKey } = generateKeyPairSync('ed25519');
        return `${input}.${signBytes(null, Buffer.from(input), privateKey).toString('base64url')}`;
      },
    ],
    [
      'a kid that is not ours',
      'token_signature',
      () => `${encode({ alg: 'EdDSA', typ: 'session+jwt', kid: 'x' })}.${parts()[1]}.${parts()[2]}`,
    ],
    [
      'a key of its own in the header',
      'token_signature',
      () => `${encode({ alg: 'EdDSA', typ: 'session+jwt', jwk: {} })}.${parts()[1]}.${parts()[2]}`,
    ],
    [
      'a critical extension',
      'token_malformed',
      () =>
        `${encode({ alg: 'EdDSA', typ: 'session+jwt', kid: keys().current.kid, crit: ['b64'] })}.${parts()[1]}.${parts()[2]}`,
    ],
    ['another type', 'token_type', () => signed({}, 'JWT')],
    ['the type of reports', 'token_type', () => signed({}, 'credence-report+jws')],
    ['another audience', 'token_audience', () => signed({ aud: 'shop' })],
    ['no audience', 'token_audience', () => signed({ aud: null })],
    ['an hour too late', 'token_expired', () => signed({ iat: now() - 3_900, exp: now() - 3_600 })],
    ['this very second', 'token_expired', () => signed({ exp: now() })],
    ['from the future', 'token_malformed', () => signed({ iat: now() + 3_600, exp: now() + 3_900 })],
    ['without a wallet', 'token_malformed', () => signed({ wallet: null })],
    ['with a text for a time', 'token_malformed', () => signed({ exp: '9999999999' })],
  ])('%s', async (_what, code, make) => {
    const token = await make();
    const answer = await withToken(token);
    expect(codeOf(answer)).toEqual([401, code]);
    expect(answer.headers['www-authenticate']).toBe('Bearer realm="credence", error="invalid_token"');
    // Its sender believes it counts, so a public read refuses it too.
    const read = await service.get('/v1/policies/vp', { authorization: `Bearer ${token}` });
    expect(codeOf(read)).toEqual([401, code]);
  });

  test('an eligibility token, and an access token where an eligibility token is asked for', async () => {
    const position = await relay(service, [
      { tris_id: tokens.tris_id, category: 'financial', action_type: 'swap', criticality: 'high' },
    ]);
    const policy = { policy_id: 'AP_ANYBODY_V1', rules: { disc_min: 0 } };
    expect((await service.post('/v1/policies/ap', policy)).status).toBe(201);
    const check = { policy_id: 'AP_ANYBODY_V1', subject_tris: tokens.tris_id, audience: 'credence-session' };
    const { json } = await service.post('/v1/policies/ap/check', check, { 'credence-min-position': position });
    expect(json.granted).toBe(true);
    expect(codeOf(await withToken(json.eligibility_token))).toEqual([401, 'token_type']);

    const asked = await service.post('/v1/eligibility/verify', { token: tokens.access_token });
    expect(asked.json).toMatchObject({ active: false, reason: 'eligibility_malformed' });
    const away = verifyEligibility(tokens.access_token, { jwks: keys().jwks, audience: 'credence-session' });
    expect(away).toMatchObject({ active: false, reason: 'eligibility_malformed' });
  });
});

describe('beside API keys', () => {
  test('a session gives no access to a route that needs a key, whatever its TRIS', async () => {
    for (const [path, body] of [
      [
        '/api/decision-relay',
        { tris_id: tokens.tris_id, action_type: 'swap', category: 'financial', criticality: 'high', platform_id: 'x' },
      ],
      ['/v1/organizations', { tris_org: tokens.tris_id, platform_ids: [] }],
      [`/v1/identities/${tokens.tris_id}/bad-status`, { level: 1, reason_code: 'x' }],
      ['/v1/policies/vp/VP_X_V1/promote', { scope: 'platform' }],
    ] as const) {
      expect(codeOf(await call(service, path, body, bearer(tokens)))).toEqual([403, 'forbidden']);
    }
  });

  test('both at once are refused, and so is a request without either', async () => {
    const both = await list({ authorization: `Bearer ${tokens.access_token}`, 'x-api-key': service.key });
    expect(codeOf(both)).toEqual([401, 'unauthorized']);
    const none = await list({});
    expect(codeOf(none)).toEqual([401, 'unauthorized']);
    expect(none.headers['www-authenticate']).toBe(
      'ApiKey realm="credence", header="X-API-Key", Bearer realm="credence"',
    );
  });

  test('another authentication scheme is ignored', async () => {
    const answer = await service.get('/v1/policies/vp', { authorization: 'Basic dTpw' });
    expect(answer.status).toBe(200);
  });

  test('a request with a session counts against the rate limit', async () => {
    const limited = await startService({ CREDENCE_RATE_LIMIT: '4' });
    try {
      const session = await claim(limited, newAccount()); // two requests
      const read = () => send(limited.port, 'GET', `/v1/wallets/${session.tris_id}`, { headers: bearer(session) });
      expect([(await read()).status, (await read()).status, (await read()).status]).toEqual([200, 200, 429]);
    } finally {
      await limited.close();
    }
  });
});
