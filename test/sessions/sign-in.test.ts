import { secp256k1 } from '@noble/curves/secp256k1';
import { type Service, startService } from '../policies/service.fixture.js';
import { account, call, codeOf, newAccount, signIn, start, verify } from './wallet.js';

let service: Service;
let ahead = 0;
const clock = () => Date.now() + ahead;
beforeAll(
  async () => void (service = await startService({ CREDENCE_PUBLIC_URL: 'https://id.example:8443/app' }, clock)),
);
beforeEach(() => void (ahead = 0));
afterAll(() => service.close());

const alice = account(0xa11ce);

describe('signing in', () => {
  test('returns a message with the wallet, the domain, the times and the nonce', async () => {
    const { nonce, message, expires_at } = await start(service, alice.address.toLowerCase(), { chain_id: 137 });
    expect(nonce).toMatch(/^[0-9a-f]{64}$/);
    const issued = new Date(Date.parse(expires_at) - 600_000).toISOString();
    expect(message.split('\n')).toEqual([
      'id.example:8443 wants you to sign in with your Ethereum account:',
      alice.address,
      '',
      'Sign in to Credence.',
      '',
      'URI: https://id.example:8443/app',
      'Version: 1',
      'Chain ID: 137',
      `Nonce: ${nonce}`,
      `Issued At: ${issued}`,
      `Expiration Time: ${expires_at}`,
      'Request ID: credence:sign_in',
    ]);
  });

  test('exchanges the signed message for a session of the wallet, which acts for no TRIS yet', async () => {
    const answer = await signIn(service, alice);
    expect(answer.status).toBe(200);
    expect(answer.json).toEqual({
      access_token: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
      token_type: 'Bearer',
      expires_in: 300,
      refresh_token: expect.stringMatching(/^[\w-]{64}$/),
      tris_id: null,
      wallet: alice.address,
    });
    expect(answer.headers['cache-control']).toBe('no-store');
  });

  test('accepts a recovery byte that starts at 0', async () => {
    const { message } = await start(service, alice.address);
    const signature = await alice.signMessage({ message });
    const v = parseInt(signature.slice(-2), 16) - 27;
    expect((await verify(service, message, `${signature.slice(0, -2)}0${v}`)).status).toBe(200);
  });

  test('of fifty concurrent tries with one message, one succeeds', async () => {
    const { message } = await start(service, alice.address);
    const signature = await alice.signMessage({ message });
    const answers = await Promise.all(Array.from({ length: 50 }, () => verify(service, message, signature)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(new Set(answers.filter(({ status }) => status !== 200).map((answer) => answer.json.code))).toEqual(
      new Set(['nonce_used']),
    );
  });
});

describe('a start is refused', () => {
  test.each([
    [{ address: '0x123' }, 'validation_failed', '/address'],
    [{ address: `0x${'AB'.repeat(20)}` }, 'address_checksum', '/address'],
    [{ address: alice.address.replace(/[a-f]/, (letter) => letter.toUpperCase()) }, 'address_checksum', '/address'],
    [{ address: 7 }, 'validation_failed', '/address'],
    [{ chain_id: 0 }, 'validation_failed', '/chain_id'],
    [{ chain_id: 1.5 }, 'validation_failed', '/chain_id'],
    [{ chain_id: '1' }, 'validation_failed', '/chain_id'],
    [{ purpose: 'pay' }, 'validation_failed', '/purpose'],
    [{ purpose: 'link' }, 'validation_failed', '/tris_id'],
    [{ purpose: 'link', tris_id: 'tris:a\nb' }, 'validation_failed', '/tris_id'],
    [{ purpose: 'claim', tris_id: 'tris:other' }, 'validation_failed', '/tris_id'],
    [{ tris_id: 'tris:a' }, 'validation_failed', '/tris_id'],
    [{ domain: 'evil.example' }, 'validation_failed', '/domain'],
  ])('for %j with %s', async (wish, code, pointer) => {
    const body = { address: alice.address.toLowerCase(), chain_id: 1, ...wish };
    const answer = await call(service, '/v1/tris/auth/siwe/start', body);
    expect(codeOf(answer)).toEqual([400, code]);
    expect(answer.json.errors.map((error: { pointer: string }) => error.pointer)).toEqual([pointer]);
  });
});

describe('a message is refused, with a code of its own', () => {
  type Change = (message: string) => string;
  const replaced =
    (pattern: RegExp | string, by: string): Change =>
    (message) =>
      message.replace(pattern, by);
  const at = (years: number) => new Date(Date.UTC(years, 0, 1)).toISOString();
  const mallory = account(0xbad);

  test.each<[string, number, string, Change]>([
    ['another domain', 401, 'siwe_domain', replaced('id.example:8443 wants', 'evil.example wants')],
    ['the domain without its port', 401, 'siwe_domain', replaced('id.example:8443 wants', 'id.example wants')],
    ['another URI', 401, 'siwe_uri', replaced('8443/app', '8443/other')],
    ['another chain', 401, 'siwe_chain', replaced('Chain ID: 1', 'Chain ID: 10')],
    ['another address', 401, 'siwe_address', replaced(alice.address, mallory.address)],
    ['an address in lower case', 400, 'address_checksum', replaced(alice.address, alice.address.toLowerCase())],
    ['another version', 400, 'siwe_malformed', replaced('Version: 1', 'Version: 2')],
    ['an unknown nonce', 401, 'siwe_nonce_unknown', replaced(/Nonce: .*/, `Nonce: ${'0'.repeat(64)}`)],
    ['a nonce of the former form', 401, 'siwe_nonce_unknown', replaced(/Nonce: .*/, `Nonce: ${'0'.repeat(32)}`)],
    [
      'a nonce with another MAC',
      401,
      'siwe_changed',
      (message) => message.replace(/(Nonce: .*)(.)/, (_, nonce, last) => nonce + (last === '0' ? '1' : '0')),
    ],
    ['a nonce of another form', 401, 'siwe_nonce_unknown', replaced(/Nonce: .*/, 'Nonce: abcdefgh12')],
    ['no nonce', 400, 'siwe_malformed', replaced(/Nonce: .*\n/, '')],
    ['an expiry that has passed', 401, 'siwe_expired', replaced(/Expiration Time: .*/, `Expiration Time: ${at(2020)}`)],
    ['an issue in 2001', 401, 'siwe_too_old', replaced(/Issued At: .*/, `Issued At: ${at(2001)}`)],
    ['an issue in 2099', 401, 'siwe_not_yet_valid', replaced(/Issued At: .*/, `Issued At: ${at(2099)}`)],
    ['a start in 2099', 401, 'siwe_not_yet_valid', replaced('Request ID', `Not Before: ${at(2099)}\nRequest ID`)],
    ['a longer life', 401, 'siwe_changed', replaced(/Expiration Time: .*/, `Expiration Time: ${at(2099)}`)],
    ['another statement', 401, 'siwe_changed', replaced('Sign in to', 'Sign out of')],
    ['another request id', 401, 'siwe_changed', replaced('credence:sign_in', 'credence:link:tris:a')],
    ['a resource', 401, 'siwe_resources', (message) => `${message}\nResources:\n- https://evil.example`],
    [
      '100 resources',
      401,
      'siwe_resources',
      (message) => `${message}\nResources:${'\n- https://evil.example'.repeat(100)}`,
    ],
    [
      '2,000 resources',
      400,
      'siwe_too_long',
      (message) => `${message}\nResources:${'\n- https://evil.example'.repeat(2_000)}`,
    ],
    ['5 KB', 400, 'siwe_too_long', replaced('Sign in to', 'Sign in to '.padEnd(5_000, 'x'))],
    ['a line break in the statement', 400, 'siwe_malformed', replaced('Sign in to', 'Sign in\nto')],
    ['an injected line', 400, 'siwe_malformed', replaced('Version: 1', 'Version: 1\nChain ID: 1')],
    ['a line break at the end', 400, 'siwe_malformed', (message) => `${message}\n`],
    ['line breaks of Windows', 400, 'siwe_malformed', (message) => message.replaceAll('\n', '\r\n')],
    ['a scheme', 401, 'siwe_changed', (message) => `https://${message}`],
    ['many empty lines', 400, 'siwe_malformed', (message) => message + '\n'.repeat(1_000)],
    ['nothing', 400, 'siwe_malformed', () => ''],
  ])('%s', async (_what, status, code, change) => {
    const { message } = await start(service, alice.address);
    const changed = change(message);
    const answer = await verify(service, changed, await alice.signMessage({ message: changed }));
    expect(codeOf(answer)).toEqual([status, code]);
    expect(answer.text).not.toMatch(/maxMatched|node_modules/);
    if (status === 401 && code !== 'siwe_nonce_unknown') {
      // The nonce is not used up by what was not its message.
      expect((await verify(service, message, await alice.signMessage({ message }))).status).toBe(200);
    }
  });

  test('a nonce that was used', async () => {
    const { message } = await start(service, alice.address);
    const signature = await alice.signMessage({ message });
    expect((await verify(service, message, signature)).status).toBe(200);
    expect(codeOf(await verify(service, message, signature))).toEqual([401, 'nonce_used']);
    // Also when it comes in another message, signed anew.
    const changed = message.replace('Sign in to', 'Sign out of');
    expect(codeOf(await verify(service, changed, await alice.signMessage({ message: changed })))).toEqual([
      401,
      'nonce_used',
    ]);
  });

  test('one that was signed too late, and one whose nonce has expired', async () => {
    const { message } = await start(service, alice.address);
    const signature = await alice.signMessage({ message });
    ahead = 10 * 60_000;
    expect(codeOf(await verify(service, message, signature))).toEqual([401, 'siwe_expired']);
    ahead = 60 * 60_000;
    expect(codeOf(await verify(service, message, signature))).toEqual([401, 'siwe_expired']);
  });

  test('one for another purpose', async () => {
    const { message } = await start(service, alice.address, { purpose: 'link', tris_id: 'tris:a' });
    expect(codeOf(await verify(service, message, await alice.signMessage({ message })))).toEqual([401, 'siwe_purpose']);
  });
});

describe('a signature is refused, with a code of its own', () => {
  const ORDER = secp256k1.CURVE.n;
  const parts = (signature: string) =>
    [signature.slice(2, 66), signature.slice(66, 130), signature.slice(130)] as const;
  const hex = (n: bigint) => n.toString(16).padStart(64, '0');

  test.each<[string, number, string, (signature: string) => string]>([
    [
      'with a high s',
      401,
      'siwe_signature_high_s',
      (signature) => {
        const [r, s, v] = parts(signature);
        return `0x${r}${hex(ORDER - BigInt(`0x${s}`))}${v === '1b' ? '1c' : '1b'}`;
      },
    ],
    [
      'of 64 bytes (EIP-2098)',
      400,
      'siwe_signature_compact',
      (signature) => {
        const [r, s, v] = parts(signature);
        return `0x${r}${hex(BigInt(`0x${s}`) | (v === '1c' ? 1n << 255n : 0n))}`;
      },
    ],
    [
      'with the other v',
      401,
      'siwe_signature',
      (signature) => signature.slice(0, -2) + (signature.endsWith('1b') ? '1c' : '1b'),
    ],
    ['with a v of its own', 401, 'siwe_signature', (signature) => `${signature.slice(0, -2)}25`],
    ['with r = 0', 401, 'siwe_signature', (signature) => `0x${hex(0n)}${signature.slice(66)}`],
    ['with s = n', 401, 'siwe_signature', (signature) => `0x${parts(signature)[0]}${hex(ORDER)}1b`],
    ['of zeros', 401, 'siwe_signature', () => `0x${'00'.repeat(65)}`],
    ['of 66 bytes, on a chain that is not configured', 400, 'chain_not_configured', (signature) => `${signature}00`],
    ['without 0x', 400, 'siwe_signature_form', (signature) => signature.slice(2)],
    ['with half a byte', 400, 'siwe_signature_form', (signature) => signature.slice(0, -1)],
    ['that is empty, on a chain that is not configured', 400, 'chain_not_configured', () => '0x'],
    ['of 10 KB', 400, 'siwe_signature_form', () => `0x${'ab'.repeat(10_000)}`],
  ])('%s', async (_what, status, code, change) => {
    const { message } = await start(service, alice.address);
    const answer = await verify(service, message, change(await alice.signMessage({ message })));
    expect(codeOf(answer)).toEqual([status, code]);
  });

  test('of another wallet, and the message is used up', async () => {
    const { message } = await start(service, alice.address);
    const forged = await verify(service, message, await newAccount().signMessage({ message }));
    expect(codeOf(forged)).toEqual([401, 'siwe_signature']);
    expect(forged.json.detail).toMatch(/chain 1 is not configured here/);
    expect(codeOf(await verify(service, message, await alice.signMessage({ message })))).toEqual([401, 'nonce_used']);
  });

  test('of another message', async () => {
    const [one, other] = [await start(service, alice.address), await start(service, alice.address)];
    const signature = await alice.signMessage({ message: other.message });
    expect(codeOf(await verify(service, one.message, signature))).toEqual([401, 'siwe_signature']);
  });
});

test('refusals are counted by code', async () => {
  const count = async () => {
    const { text } = await service.get('/metrics', { 'x-api-key': service.key });
    return Number(/^credence_problems_total\{code="siwe_nonce_unknown"\} (\d+)$/m.exec(text)?.[1] ?? 0);
  };
  const before = await count();
  const { message } = await start(service, alice.address);
  const changed = message.replace(/Nonce: .*/, `Nonce: ${'0'.repeat(32)}`);
  for (let i = 0; i < 3; i++) await verify(service, changed, await alice.signMessage({ message: changed }));
  expect(await count()).toBe(before + 3);
});

test('sign-in is rate limited per address', async () => {
  const limited = await startService({ CREDENCE_RATE_LIMIT: '2' });
  try {
    await start(limited, alice.address);
    await start(limited, alice.address);
    const third = await call(limited, '/v1/tris/auth/siwe/start', { address: alice.address, chain_id: 1 });
    expect(codeOf(third)).toEqual([429, 'rate_limited']);
  } finally {
    await limited.close();
  }
});
