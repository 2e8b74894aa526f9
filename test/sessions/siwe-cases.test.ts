import { SiweMessage } from 'siwe';
import { compose, faultOf } from '../../src/features/accounts/siwe.js';

/**
 * Messages of EIP-4361, in the manner of the vectors that the siwe project publishes (github.com/spruceid/siwe, test/):
 * those it calls well-formed are refused for what they say, those it calls malformed for their form.
 */
const URL_HERE = 'https://service.org/login';
const ADDRESS = '0xe5A12547fe4E872D192E3eCecb76F2Ce1aeA4946';
const NOW = Date.parse('2026-03-17T12:50:00.000Z');

const FIELDS = {
  domain: 'service.org wants you to sign in with your Ethereum account:',
  address: ADDRESS,
  statement: '\nI accept the ServiceOrg Terms of Service: https://service.org/tos\n',
  uri: `URI: ${URL_HERE}`,
  version: 'Version: 1',
  chain: 'Chain ID: 1',
  nonce: 'Nonce: 12341234',
  issued: 'Issued At: 2026-03-17T12:45:13.610Z',
  expiration: 'Expiration Time: 2026-03-17T12:55:13.610Z',
  notBefore: 'Not Before: 2026-03-17T12:45:13.610Z',
  requestId: 'Request ID: some_id',
};
type Field = keyof typeof FIELDS;
const message = (changes: Partial<Record<Field, string | null>> = {}, order = Object.keys(FIELDS) as Field[]) =>
  order
    .map((field) => (field in changes ? changes[field] : FIELDS[field]))
    .filter((line) => line !== null)
    .join('\n');
const codeOf = async (text: string) => (await faultOf(text, undefined, URL_HERE, NOW)).code;
const swapped = (one: Field, other: Field) => {
  const order = Object.keys(FIELDS) as Field[];
  const [i, j] = [order.indexOf(one), order.indexOf(other)];
  [order[i], order[j]] = [order[j]!, order[i]!];
  return message({}, order);
};

describe('well-formed: refused for what it says', () => {
  test.each<[string, string, string]>([
    ['all fields', message(), 'siwe_nonce_unknown'],
    ['no optional field', message({ expiration: null, notBefore: null, requestId: null }), 'siwe_nonce_unknown'],
    ['no statement', message({ statement: '\n' }), 'siwe_nonce_unknown'],
    ['a time without fractions', message({ issued: 'Issued At: 2026-03-17T12:45:13Z' }), 'siwe_nonce_unknown'],
    ['a time with an offset', message({ issued: 'Issued At: 2026-03-17T14:45:13+02:00' }), 'siwe_nonce_unknown'],
    ['another domain', message({ domain: FIELDS.domain.replace('service', 'servlce') }), 'siwe_domain'],
    ['a domain with a port', message({ domain: FIELDS.domain.replace('.org', '.org:443') }), 'siwe_domain'],
    ['an address for a domain', message({ domain: FIELDS.domain.replace('service.org', '127.0.0.1') }), 'siwe_domain'],
    ['user information in the domain', message({ domain: `a@${FIELDS.domain}` }), 'siwe_domain'],
    ['another URI', message({ uri: 'URI: https://service.org/tos' }), 'siwe_uri'],
    ['expired', message({ expiration: 'Expiration Time: 2026-03-17T12:49:59.999Z' }), 'siwe_expired'],
    ['not yet valid', message({ notBefore: 'Not Before: 2026-03-17T12:50:00.001Z' }), 'siwe_not_yet_valid'],
    ['issued tomorrow', message({ issued: 'Issued At: 2026-03-18T12:45:13.610Z' }), 'siwe_not_yet_valid'],
    ['issued yesterday', message({ issued: 'Issued At: 2026-03-16T12:45:13.610Z' }), 'siwe_too_old'],
  ])('%s', async (_what, text, code) => {
    expect(() => new SiweMessage(text)).not.toThrow();
    expect(await codeOf(text)).toBe(code);
  });
});

describe('malformed', () => {
  test.each<[string, string]>([
    ['missing domain', message({ domain: ' wants you to sign in with your Ethereum account:' })],
    ['missing address', message({ address: '' })],
    ['missing uri', message({ uri: null })],
    ['missing version', message({ version: null })],
    ['missing chain id', message({ chain: null })],
    ['missing nonce', message({ nonce: null })],
    ['missing issued at', message({ issued: null })],
    ['out of order uri', swapped('uri', 'version')],
    ['out of order chain id', swapped('chain', 'nonce')],
    ['out of order issued at', swapped('issued', 'expiration')],
    ['out of order request id', swapped('notBefore', 'requestId')],
    ['a version that is not 1', message({ version: 'Version: 2' })],
    ['a chain id that is no number', message({ chain: 'Chain ID: ?' })],
    ['a nonce of seven characters', message({ nonce: 'Nonce: 1234123' })],
    ['a nonce with other characters', message({ nonce: 'Nonce: 1234-1234' })],
    ['a time that is none', message({ issued: 'Issued At: Wed Oct 05 2011 16:48:00 GMT+0200' })],
    ['a day that is none', message({ issued: 'Issued At: 2026-02-30T12:45:13.610Z' })],
    ['an address that is too long', message({ address: `${ADDRESS}0` })],
    ['an address without 0x', message({ address: ADDRESS.slice(2) })],
    ['a URI that is none', message({ uri: 'URI: not a uri' })],
    ['a line break in the statement', message({ statement: '\nI accept\nall of it\n' })],
    ['characters beyond ASCII in the statement', message({ statement: '\nÑandú\n' })],
    ['an unknown field', `${message()}\nColour: blue`],
    ['a field that stands twice', message({ nonce: 'Nonce: 12341234\nNonce: 12341234' })],
    ['text before it', `Hello\n${message()}`],
  ])('%s', async (_what, text) => {
    expect(() => new SiweMessage(text)).toThrow();
    expect(await codeOf(text)).toBe('siwe_malformed');
  });

  test('an address with a wrong checksum', async () => {
    const wrong = message({ address: ADDRESS.replace('A', 'a') });
    expect(await codeOf(wrong)).toBe('address_checksum');
    expect(await codeOf(message({ address: ADDRESS.toLowerCase() }))).toBe('address_checksum');
  });
});

test('the library parses an issued message to the same values', async () => {
  const wish = { address: ADDRESS, chain_id: 137, purpose: 'link', tris_id: 'tris@alice' } as const;
  const text = await compose(wish, URL_HERE, '0123456789abcdef0123456789abcdef', NOW);
  expect(new SiweMessage(text)).toMatchObject({
    domain: 'service.org',
    address: ADDRESS,
    statement: 'Link this wallet to tris@alice. Whoever signs in with it can then act for tris@alice.',
    uri: URL_HERE,
    version: '1',
    chainId: 137,
    nonce: '0123456789abcdef0123456789abcdef',
    issuedAt: '2026-03-17T12:50:00.000Z',
    expirationTime: '2026-03-17T13:00:00.000Z',
    requestId: 'credence:link:tris@alice',
  });
});

test.each([
  'http://127.0.0.1:3000',
  'http://[::1]:3000',
  'https://id.example/',
  'https://id.example:8443/a/b',
  'http://localhost:3000',
])('a service at %s can give messages out', async (url) => {
  const wish = { address: ADDRESS, chain_id: 1, purpose: 'sign_in', tris_id: null } as const;
  const text = await compose(wish, url, '0123456789abcdef0123456789abcdef', NOW);
  expect(new SiweMessage(text).domain).toBe(new URL(url).host);
});
