import { createHmac, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { Readable } from 'node:stream';
import { Webhook } from 'standardwebhooks';
import { type Jwks, verifyEligibility } from '../../clients/typescript/src/eligibility.js';
import { WebhookError, verifyWebhook } from '../../clients/typescript/src/webhooks.js';
import { verify } from '../../src/credentials/jws.js';

/** The client's verifiers against those of the service and of the published library of Standard Webhooks. */

describe('eligibility tokens', () => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const other = generateKeyPairSync('ed25519').privateKey;
  const jwk = { ...publicKey.export({ format: 'jwk' }), kid: 'k1' };
  const jwks = { keys: [{ kty: 'EC', kid: 'k0' }, jwk] } as Jwks;
  const NOW = Date.parse('2026-11-20T12:00:00Z');
  const seconds = NOW / 1_000;
  const HEADER = { alg: 'EdDSA', typ: 'eligibility+jwt', kid: 'k1' };
  const CLAIMS = {
    iss: 'https://credence.example',
    sub: 'tris:a',
    jti: 'j1',
    iat: seconds,
    exp: seconds + 300,
    policy_id: 'AP_A_V1',
    policy_hash: 'a'.repeat(64),
    as_of: '2026-11-20T12:00:00.000Z',
    position: 'log.1',
    lens: { policy_id: null, content_hash: 'b'.repeat(64) },
    model: { id: 'disc-1', hash: 'c'.repeat(64) },
  };
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  function token(claims: object = {}, header: object = {}, key = privateKey): string {
    const signed = `${encode({ ...HEADER, ...header })}.${encode({ ...CLAIMS, ...claims })}`;
    return `${signed}.${sign(null, Buffer.from(signed), key).toString('base64url')}`;
  }
  const [head, claims, signature] = token().split('.') as [string, string, string];

  test.each<[string, unknown, object]>([
    ['a sound one', token(), {}],
    ['one for this audience', token({ aud: 'shop' }), { audience: 'shop' }],
    ['one for another audience', token({ aud: 'shop' }), { audience: 'bank' }],
    ['one with an audience where none is expected', token({ aud: 'shop' }), {}],
    ['one without the expected audience', token(), { audience: 'shop' }],
    ['one of another policy', token(), { policy: 'AP_B_V1' }],
    ['one of this policy and issuer', token(), { policy: 'AP_A_V1', issuer: CLAIMS.iss }],
    ['one of another issuer', token(), { issuer: 'https://other.example' }],
    ['an expired one', token({ exp: seconds }), {}],
    ['one issued within the tolerance ahead', token({ iat: seconds + 60 }), {}],
    ['one issued in the future', token({ iat: seconds + 61 }), {}],
    ['one by another key', token({}, {}, other), {}],
    ['one with an unknown kid', token({}, { kid: 'k2' }), {}],
    ['one whose kid names a key of another kind', token({}, { kid: 'k0' }), {}],
    ['an unsigned one', `${encode({ ...HEADER, alg: 'none' })}.${claims}.`, {}],
    ['one of another algorithm', token({}, { alg: 'HS256' }), {}],
    ['one of another type', token({}, { typ: 'session+jwt' }), {}],
    ['one with critical headers', token({}, { crit: ['x'] }), {}],
    ['one without a claim', token({ jti: undefined }), {}],
    ['one with a claim of another type', token({ exp: 'never' }), {}],
    ['one with changed claims', `${head}.${encode({ ...CLAIMS, sub: 'tris:b' })}.${signature}`, {}],
    ['padded base64', `${head}.${claims}.${signature}==`, {}],
    ['another encoding of the same signature', `${head}.${claims}.${signature.slice(0, -1)}-`, {}],
    ['two parts', `${head}.${claims}`, {}],
    ['four parts', `${head}.${claims}.${signature}.x`, {}],
    ['nothing', '', {}],
    ['no text', { head }, {}],
    ['a very long text', 'a'.repeat(10_000), {}],
  ])('%s is judged as the service’s own verifier judges it', async (_, given, options) => {
    const expected = verify(given, { jwks, now: NOW, ...options }) as { detail?: string };
    delete expected.detail;
    expect(await verifyEligibility(given, { jwks, now: NOW, ...options })).toEqual(expected);
  });
});

describe('webhooks', () => {
  const secret = `whsec_${randomBytes(32).toString('base64')}`;
  const old = `whsec_${randomBytes(24).toString('base64')}`;
  const body = JSON.stringify({ type: 'rating.changed', timestamp: 't', data: { tris_id: 'tris:ä' } });
  const now = Math.floor(Date.now() / 1_000);
  const signed = (by = secret, at = now, id = 'msg_1', text = body) =>
    new Webhook(by).sign(id, new Date(at * 1_000), text);
  const headers = (signature: string, at = now, id = 'msg_1') => ({
    'webhook-id': id,
    'webhook-timestamp': String(at),
    'webhook-signature': signature,
  });
  /** What the published library says. */
  function isAccepted(given: Record<string, string>, text = body, by = secret): boolean {
    try {
      new Webhook(by).verify(text, given);
      return true;
    } catch {
      return false;
    }
  }

  test.each<[string, Record<string, string>, string, string | null]>([
    ['a message signed by the library', headers(signed()), body, null],
    ['one with several signatures, of which one is ours', headers(`${signed(old)} v1a,AAAA ${signed()}`), body, null],
    ['one signed by another secret', headers(signed(old)), body, 'signature'],
    ['one with another body', headers(signed()), `${body} `, 'signature'],
    ['one with another id', headers(signed(), now, 'msg_2'), body, 'signature'],
    ['one with another time', headers(signed(), now - 1), body, 'signature'],
    ['one with a signature of another version', headers(signed().replace('v1', 'v2')), body, 'signature'],
    ['one with a signature that is not base64', headers('v1,***'), body, 'signature'],
    ['one that is too old', headers(signed(secret, now - 310), now - 310), body, 'timestamp'],
    ['one from the future', headers(signed(secret, now + 310), now + 310), body, 'timestamp'],
    ['one almost too old', headers(signed(secret, now - 290), now - 290), body, null],
    ['one without a signature', headers(''), body, 'headers'],
    ['one without an id', headers(signed(), now, ''), body, 'headers'],
    ['one without a time', { ...headers(signed()), 'webhook-timestamp': 'today' }, body, 'headers'],
  ])('%s is judged as the published library judges it', async (_, given, text, reason) => {
    expect(isAccepted(given, text)).toBe(reason === null);
    for (const form of [given, new Headers(given)]) {
      const judged = verifyWebhook(text, form, secret);
      if (reason === null) expect(await judged).toEqual(JSON.parse(text));
      else await expect(judged).rejects.toMatchObject({ name: 'WebhookError', reason });
    }
  });

  test('takes bytes, the tolerance of the caller, and several secrets, while one is being replaced', async () => {
    const bytes = new TextEncoder().encode(body);
    expect(await verifyWebhook(bytes, headers(signed()), [old, secret])).toMatchObject({ data: { tris_id: 'tris:ä' } });
    const late = headers(signed(secret, now - 30), now - 30);
    await expect(verifyWebhook(bytes, late, secret, { tolerance: 10 })).rejects.toThrow(WebhookError);
    expect(await verifyWebhook(bytes, late, secret, { tolerance: 10, now: (now - 30) * 1_000 })).toBeTruthy();
  });

  test('takes a body that comes in parts, but not without an end', async () => {
    const bytes = new TextEncoder().encode(body);
    const within = bytes.length - 4; // Between the two bytes of "ä".
    const request = Readable.from([Buffer.from(bytes.subarray(0, within)), Buffer.from(bytes.subarray(within))]);
    expect(await verifyWebhook(request, headers(signed()), secret)).toMatchObject({ data: { tris_id: 'tris:ä' } });
    const endless = (function* () {
      for (;;) yield Buffer.alloc(65_536);
    })();
    await expect(verifyWebhook(Readable.from(endless), headers(signed()), secret)).rejects.toMatchObject({
      reason: 'body',
    });
  });

  test('a secret that is none, and a signed body that is no JSON, are reported as such', async () => {
    await expect(verifyWebhook(body, headers(signed()), 'whsec_')).rejects.toThrow(TypeError);
    const text = 'no JSON';
    const mac = createHmac('sha256', Buffer.from(secret.slice(6), 'base64')).update(`msg_1.${now}.${text}`);
    const given = headers(`v1,${mac.digest('base64')}`);
    await expect(verifyWebhook(text, given, secret)).rejects.toMatchObject({ reason: 'body' });
  });
});
