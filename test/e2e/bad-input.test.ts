import { connect } from 'node:net';
import { ACTION, type Answer, Server, expectProblem } from './server.js';

/**
 * Every field of every endpoint with everything that is not a value of it. Each is refused with a problem, its code
 * and a pointer to what is wrong; never a 5xx, and never is anything written.
 */
let server: Server;
let head: number;
const KNOWN = 'tris:known';

beforeAll(async () => {
  server = await Server.start();
  await server.post('/v1/organizations', { tris_org: 'tris:org', platform_ids: ['org-app'] });
  await server.getAfter(await server.relay({ tris_id: KNOWN }), `/api/disc-score/${KNOWN}`);
  head = await server.head();
});
afterEach(async () => {
  const before = head;
  head = await server.head();
  expect(head).toBe(before);
});

const far = '2999-01-01T00:00:00Z';
const long = (length: number) => 'a'.repeat(length);

/** JSON texts that are no string at all; and strings that no identifier accepts. */
const NOT_TEXT = ['null', 'true', '0', '1.5', '[]', '["tris:a"]', '{}', '{"a":1}', '{"toString":1}'];
const NO_IDENTIFIER = [
  '""',
  '" "',
  '"\\u0000"',
  '"\\n"',
  '"\\u202e"',
  '"ä"',
  '"a/b"',
  '"a b"',
  '"%41"',
  `"${'💥'.repeat(9)}"`,
];
const ANYWHERE = ['1e400', '-1e400', '12345678901234567890', '-0', '"\\ud800"', '"\\udc00a"'];

interface Field {
  /** JSON texts that are refused, beyond those that are refused everywhere. */
  bad: readonly string[];
  optional?: boolean;
  code?: string;
}
const trisId: Field = {
  bad: [
    ...NOT_TEXT,
    ...NO_IDENTIFIER,
    '"alice"',
    '"tris:"',
    '"TRIS:a"',
    '"tris:a\\u0000"',
    `"tris:${long(124)}"`,
    `"tris:${long(1e5)}"`,
  ],
};
const platformId: Field = { bad: [...NOT_TEXT, ...NO_IDENTIFIER, `"${long(101)}"`] };
const timestamp: Field = {
  bad: [
    ...NOT_TEXT,
    ...NO_IDENTIFIER,
    '"yesterday"',
    '"2026-01-01"',
    '"2026-01-01T00:00:00"',
    '"2026-02-30T00:00:00Z"',
    '"2026-13-01T00:00:00Z"',
    '"2026-01-01T24:00:00Z"',
    '"2026-01-01T00:00:60Z"',
    '"2026-01-01T00:00:00+24:00"',
    '"+002026-01-01T00:00:00Z"',
    '"20260101T000000Z"',
    '1767225600000',
  ],
  optional: true,
};
const past: Field = { ...timestamp, bad: [...timestamp.bad, `"${far}"`] };
const trisIds = (most: number): Field => ({
  bad: [
    ...NOT_TEXT.filter((text) => text !== '["tris:a"]'),
    '"tris:a"',
    '[null]',
    '["tris:a",7]',
    '["tris:a","b"]',
    '[["tris:a"]]',
    `["tris:${long(1_000)}"]`,
  ],
  code: most > 0 ? undefined : 'never',
});
const policy: Field = { bad: [...NOT_TEXT, ...NO_IDENTIFIER, `"${long(129)}"`, '"VP-X"'], optional: true };
const window: Field = {
  bad: [...NOT_TEXT, '2', '3.5', '-3', '"2"', '"0"', '"3 "', '"03"', '"constructor"'],
  optional: true,
};
const depth: Field = { bad: [...NOT_TEXT, '"Snapshot"', '"deep"', '"toString"'], optional: true };

const BODIES: [path: string, valid: Record<string, unknown>, fields: Record<string, Field>][] = [
  [
    '/api/decision-relay',
    ACTION,
    {
      tris_id: trisId,
      action_type: { bad: [...NOT_TEXT, ...NO_IDENTIFIER, '"Loan"', '"1loan"', '"loan-x"', `"${long(65)}"`] },
      category: { bad: [...NOT_TEXT, ...NO_IDENTIFIER, '"Financial"', '"other"', '"__proto__"', '"constructor"'] },
      criticality: {
        bad: [...NOT_TEXT, ...NO_IDENTIFIER, '"medium"', '"high "', '"constructor"', '"ℎigh"', '"0.10"'],
        code: 'unknown_criticality',
      },
      platform_id: platformId,
      occurred_at: past,
      external_id: {
        bad: [...NOT_TEXT, '""', '" "', '" a"', '"a "', '"a\\nb"', '"\\u0007"', '"ä"', `"${long(201)}"`],
        optional: true,
      },
      evidence_uri: {
        bad: [
          ...NOT_TEXT,
          '""',
          '"evidence"',
          '"javascript:alert(1)"',
          '"file:///etc/passwd"',
          '"ftp://example.org/x"',
          '"https://"',
          '"https://a b"',
          '"https://example.org/\\u0001"',
          '"https://example.org/\\u0000"',
          '"https://example.org/\\u007f"',
          `"https://example.org/${long(2_000)}"`,
        ],
        optional: true,
      },
    },
  ],
  ['/v1/disc/score/batch', { tris_ids: [KNOWN] }, { tris_ids: trisIds(100), as_of: past, known_at: past, vp: policy }],
  [
    '/v1/disc/metrics/batch',
    { tris_ids: [KNOWN] },
    {
      tris_ids: trisIds(100),
      as_of: past,
      vp: policy,
      metrics: {
        bad: ['null', '0', '"finance"', '{}', '[null]', '[7]', '["Finance"]', '["a b"]', '["_x"]', `["${long(129)}"]`],
        optional: true,
      },
    },
  ],
  ['/v1/disc/report/batch', { tris_ids: [KNOWN] }, { tris_ids: trisIds(25), as_of: past, vp: policy, window, depth }],
  [
    '/v1/organizations',
    { tris_org: 'tris:new', platform_ids: [] },
    {
      tris_org: trisId,
      platform_ids: {
        bad: ['null', '0', '"p"', '{}', '[null]', '[7]', '["a/b"]', '[""]', '["p","p"]', '[["p"]]', `["${long(101)}"]`],
      },
    },
  ],
  ['/v1/platforms', { platform_id: 'p', tris_org: 'tris:nobody' }, { platform_id: platformId, tris_org: trisId }],
  [
    `/v1/identities/${KNOWN}/bad-status`,
    { level: 3, reason_code: 'fraud' },
    {
      level: { bad: ['null', 'true', '"3"', '[]', '{}', '0', '7', '-1', '2.5', '1e9'] },
      reason_code: { bad: [...NOT_TEXT, ...NO_IDENTIFIER, '"Fraud"', '"a-b"', `"${long(65)}"`] },
    },
  ],
  [
    '/v1/issuers',
    { issuer: 'tris:new', statuses: ['zk-KYH'] },
    {
      issuer: { bad: [...NOT_TEXT, ...NO_IDENTIFIER, '"key:"', '"bank"', `"tris:${long(124)}"`] },
      statuses: {
        bad: ['null', '0', '"zk-KYH"', '{}', '[]', '[null]', '["BAD Status validation"]', '["zk-KYH","zk-KYH"]'],
      },
    },
  ],
  [
    `/v1/identities/${KNOWN}/verifications`,
    { status: 'zk-KYH', evidence_hash: '0'.repeat(64) },
    {
      status: {
        bad: [...NOT_TEXT, ...NO_IDENTIFIER, '"zk-kyh"', '"zk-KYC"', '"BAD Status validation"', '"constructor"'],
      },
      expires_at: { ...timestamp, bad: [...timestamp.bad, '"2020-01-01T00:00:00Z"'] },
      evidence_hash: {
        bad: [
          ...NOT_TEXT,
          ...NO_IDENTIFIER,
          '"00"',
          `"${'0'.repeat(63)}"`,
          `"${'A'.repeat(64)}"`,
          `"${'0'.repeat(65)}"`,
        ],
      },
    },
  ],
];

const send = (path: string, body: string) => server.request('POST', path, { body });
const shorten = (text: string) => (text.length > 40 ? `${text.slice(0, 40)}…` : text);

function expectRefusal(answer: Answer, pointer: RegExp | undefined, code: string | undefined, sent: string): void {
  const seen = { sent: shorten(sent), status: answer.status, type: answer.headers['content-type'] };
  expect(seen).toEqual({ sent: shorten(sent), status: 400, type: 'application/problem+json' });
  const { json } = answer;
  if (json.code === 'malformed_json') return;
  expect([shorten(sent), json.code]).toEqual([shorten(sent), code ?? json.code]);
  expect(json.errors.length).toBeGreaterThan(0);
  if (pointer) expect(json.errors[0].pointer).toMatch(pointer);
  for (const error of json.errors) {
    expect(error.message.length).toBeLessThan(400);
    expect(error.code).toMatch(/^[a-z][a-z0-9_]*$/);
  }
}

describe.each(BODIES)('the body of POST %s', (path, valid, fields) => {
  /** The valid body with one member written as the given JSON text. */
  const withMember = (name: string, text: string) =>
    `{${Object.entries({ ...valid, [name]: undefined })
      .map(([key, value]) => `${JSON.stringify(key)}:${key === name ? text : JSON.stringify(value)}`)
      .join(',')}}`;

  describe.each(Object.entries(fields))('%s', (name, { bad, optional, code }) => {
    test('is refused with an invalid value', async () => {
      for (const text of [...bad, ...ANYWHERE]) {
        const sent = withMember(name, text);
        const special = ANYWHERE.includes(text) ? undefined : code;
        expectRefusal(await send(path, sent), new RegExp(`^/${name}(/|$)`), special, sent);
      }
    });
    if (!optional) {
      test('is required', async () => {
        const { [name]: _left, ...rest } = valid;
        const answer = await send(path, JSON.stringify(rest));
        expectProblem(answer, 400, 'validation_failed', `/${name}`);
        expect(answer.json.errors[0].code).toBe('required');
      });
    }
  });

  test('has no other members', async () => {
    for (const name of ['constructor', 'toString', 'Tris_id', 'total_tct', '']) {
      expectRefusal(
        await send(path, JSON.stringify({ ...valid, [name]: 1 })),
        new RegExp(`^/${name}$`),
        'validation_failed',
        name,
      );
    }
    const polluted = JSON.stringify(valid).replace(/\}$/, ',"__proto__":{"level":1,"tris_id":"tris:evil"}}');
    expectRefusal(await send(path, polluted), /^\/__proto__$/, 'validation_failed', polluted);
  });

  test('is one JSON object', async () => {
    const whole = JSON.stringify(valid);
    const name = JSON.stringify(Object.keys(valid)[0]!);
    for (const text of [
      whole.slice(0, -1),
      whole.slice(0, whole.length / 2),
      `${whole}${whole}`,
      `${whole} x`,
      whole.replace(/\}$/, ',}'),
      whole.replace('{', `{${name}:1,`),
      whole.replaceAll('"', "'"),
      whole.replace('{', '{/* comment */'),
      `\ufeff${whole}`,
      'NaN',
      '{"a":NaN}',
      '{"a":Infinity}',
      '{"a":"\t"}',
      '{"a":"\\x41"}',
    ]) {
      expectProblem(await send(path, text), 400, 'malformed_json');
    }
    for (const text of ['null', '[]', `[${whole}]`, '"text"', '7', '', ' ']) {
      const answer = await send(path, text);
      expect([text, answer.status]).toEqual([text, 400]);
      expect(answer.headers['content-type']).toBe('application/problem+json');
    }
    expectProblem(await send(path, `${'['.repeat(3e4)}${']'.repeat(3e4)}`), 400, 'validation_failed');
    const cut = Buffer.concat([Buffer.from(whole.slice(0, -2)), Buffer.from([0xff, 0xfe]), Buffer.from('"}')]);
    expectProblem(await server.request('POST', path, { body: cut }), 400, 'malformed_json');
  });

  test('is not too large, and is JSON in UTF-8', async () => {
    const huge = JSON.stringify({ ...valid, padding: long(5e6) });
    expectProblem(await send(path, huge), 413, 'payload_too_large');
    const body = JSON.stringify(valid);
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/json; charset=latin1',
      'application/xml',
      'json',
      '',
    ]) {
      const answer = await server.request('POST', path, { body, headers: { 'content-type': type } });
      expect([type, answer.status]).toEqual([type, 415]);
      expectProblem(answer, 415, 'unsupported_media_type');
    }
    const zipped = await server.request('POST', path, { body, headers: { 'content-encoding': 'gzip' } });
    expectProblem(zipped, 415, 'unsupported_media_type');
  });

  test('takes no query parameters', async () => {
    expectProblem(await send(`${path}?force=true`, JSON.stringify(valid)), 400, 'validation_failed', '?force');
  });
});

const coordinates: Record<string, string[]> = {
  as_of: ['', 'now', '2026-01-01', '2026-02-30T00:00:00Z', far, '2026-01-01T00:00:00%2b24:00', '%00', 'NaN'],
  known_at: ['', 'now', '2026-13-01T00:00:00Z', far],
  vp: ['', 'VP-X', 'a%20b', '%00', long(129), '__proto__%0a'],
};
const PAGES: Record<string, string[]> = {
  limit: ['', '0', '-1', '1001', '1.5', 'NaN', '1e2', 'Infinity', '0x10', '%31%00', 'ten', '9'.repeat(400)],
  cursor: [
    '',
    '%00',
    'x',
    'e30',
    'bnVsbA',
    'W10',
    'MQ',
    long(1_025),
    '__proto__',
    Buffer.from('{"after":1}').toString('base64url'),
  ],
};
const QUERIES: [path: string, parameters: Record<string, string[]>][] = [
  [`/api/disc-score/${KNOWN}`, {}],
  ['/api/disc-rank/tris:org', {}],
  [`/api/tris-validations/${KNOWN}`, PAGES],
  [`/v1/disc/score/${KNOWN}`, coordinates],
  [
    `/v1/disc/score/${KNOWN}/history`,
    {
      ...coordinates,
      ...PAGES,
      from: ['', 'now', '2999-01-01T00:00:00Z&to=2998-12-31T23:59:59Z'],
      to: ['', '2026-02-30T00:00:00Z'],
    },
  ],
  [`/v1/disc/score/${KNOWN}/explain`, coordinates],
  [
    `/v1/disc/metrics/${KNOWN}`,
    {
      ...coordinates,
      metrics: [
        '',
        ',',
        'finance,',
        'Finance',
        'a%20b',
        '%00',
        'finance%00',
        '__proto__',
        `${'finance,'.repeat(60)}finance`,
        long(200),
      ],
    },
  ],
  [
    `/v1/disc/report/${KNOWN}`,
    {
      ...coordinates,
      window: ['', '0', '2', '03', '1.0', '-1', 'x', '%00'],
      depth: ['', 'deep', 'Snapshot', 'constructor'],
    },
  ],
  ['/v1/disc/changes', PAGES],
  ['/v1/organizations', PAGES],
  ['/v1/organizations/tris:org', {}],
];

describe.each(QUERIES)('the query of GET %s', (path, parameters) => {
  test('is refused with other values, parameters given twice, and unknown ones', async () => {
    for (const [name, values] of Object.entries(parameters)) {
      for (const value of values) {
        const answer = await server.get(`${path}?${name}=${value}`);
        expect([name, shorten(value), answer.status]).toEqual([name, shorten(value), 400]);
        expectProblem(answer, 400, 'validation_failed', `?${name}`);
      }
      const twice = await server.get(`${path}?${name}=1&${name}=1`);
      expectProblem(twice, 400, 'validation_failed', `?${name}`);
    }
    for (const name of ['unknown', '__proto__', 'constructor', 'Limit', 'tris_id', 'a[b]']) {
      const answer = await server.get(`${path}?${encodeURIComponent(name)}=1`);
      expectProblem(answer, 400, 'validation_failed', `?${name}`);
    }
    for (const broken of ['%', '%zz', '%c0%af', '%ff', 'limit=%']) {
      const answer = await server.get(`${path}?${broken}`);
      expect([broken, answer.status, answer.headers['content-type']]).toEqual([
        broken,
        400,
        'application/problem+json',
      ]);
    }
  });

  test('supports GET only', async () => {
    for (const method of ['PUT', 'PATCH', 'DELETE']) {
      const answer = await server.send(method, path, { body: method === 'DELETE' ? undefined : {} });
      if (path === '/v1/organizations' || answer.status === 405) expectProblem(answer, 405, 'method_not_allowed');
      expect([method, answer.status]).toEqual([method, 405]);
      expect(answer.headers.allow).toContain('GET');
    }
  });
});

describe('positions', () => {
  const paths = ['', '/history', '/explain'].map((kind) => `/v1/disc/score/${KNOWN}${kind}`);
  test.each([
    ['as nonsense', () => 'nonsense'],
    ['of another log', () => '00000000-0000-4000-8000-000000000000.1'],
    ['beyond the head', (log: string) => `${log}.${head + 1}`],
    ['negative', (log: string) => `${log}.-1`],
    ['with a leading zero', (log: string) => `${log}.01`],
    ['as an exponent', (log: string) => `${log}.1e0`],
    ['beyond a double', (log: string) => `${log}.99999999999999999999`],
  ])('%s are not known', async (_name, make) => {
    const [log] = (await server.get(`/v1/disc/score/${KNOWN}`)).json.position.split('.');
    for (const path of paths) {
      expectProblem(await server.get(`${path}?as_of_position=${make(log)}`), 400, 'position_unknown');
      const headers = { 'credence-min-position': make(log) };
      expectProblem(await server.get(path, { headers }), 400, 'position_unknown');
    }
  });

  test('cannot be combined with a time', async () => {
    const { position } = (await server.get(`/v1/disc/score/${KNOWN}`)).json;
    const query = `as_of_position=${position}&known_at=2026-01-01T00:00:00Z`;
    expectProblem(await server.get(`${paths[0]}?${query}`), 400, 'validation_failed', '?as_of_position');
    expectProblem(await server.get(`${paths[0]}?as_of_position=`), 400, 'validation_failed', '?as_of_position');
  });
});

describe('ids in a path', () => {
  const ADDRESSES: [string, string, object | undefined][] = [
    ['GET', '/api/disc-score/*', undefined],
    ['GET', '/api/disc-rank/*', undefined],
    ['GET', '/api/tris-validations/*', undefined],
    ['GET', '/v1/disc/score/*', undefined],
    ['GET', '/v1/disc/score/*/history', undefined],
    ['GET', '/v1/disc/score/*/explain', undefined],
    ['GET', '/v1/disc/metrics/*', undefined],
    ['GET', '/v1/disc/report/*', undefined],
    ['GET', '/v1/organizations/*', undefined],
    ['POST', '/v1/organizations/*/vet', undefined],
    ['POST', '/v1/organizations/*/revoke', undefined],
    ['POST', '/v1/identities/*/bad-status', { level: 3, reason_code: 'x' }],
    ['DELETE', '/v1/identities/*/bad-status', undefined],
    ['POST', '/v1/identities/*/verifications', { status: 'zk-KYH', evidence_hash: '0'.repeat(64) }],
    ['DELETE', '/v1/identities/*/verifications/zk-KYH', undefined],
  ];
  const IDS = [
    'alice',
    'tris',
    'tris:',
    'TRIS:alice',
    'tris%3A',
    'tris%253Aalice',
    'tris:a%00',
    'tris:a%0d%0aX-Evil:1',
    'tris:a%20b',
    'tris:a%2Fb',
    'tris:a%2e%2e%2f',
    'tris:a%5Cb',
    'tris:%C3%A4',
    'tris:%F0%9F%92%A5',
    'tris:a%E2%80%AE',
    '__proto__',
    'constructor',
    '%00',
    '%20',
    `tris:${'a'.repeat(124)}`,
    "tris:a'--",
    'tris:a;b',
    'tris:a,b',
    'tris:*',
  ];
  test.each(ADDRESSES)('%s %s refuses what is no TRIS id', async (method, pattern, body) => {
    for (const id of IDS) {
      const answer = await server.request(method, pattern.replace('*', id), { body });
      expect([id, answer.status]).toEqual([id, 400]);
      expectProblem(answer, 400, 'validation_failed', 'tris_id');
    }
    for (const id of [
      'tris:%',
      'tris:%zz',
      'tris:%ff',
      'tris:%c0%af',
      'tris:%ed%a0%80',
      `tris:${'%61'.repeat(400)}`,
      '',
      '..',
      '%2e%2e',
      'a/b',
    ]) {
      const answer = await server.send(method, pattern.replace('*', id), { body });
      expect([id, [400, 404, 405, 414].includes(answer.status)]).toEqual([id, true]);
      expect(answer.headers['content-type']).toBe('application/problem+json');
    }
  });

  test.each(['zk-kyh', 'BAD%20Status%20validation', '__proto__', '%00', 'zk-KYC', 'zk-KYH%2F'])(
    'the status %s cannot be revoked',
    async (status) => {
      const answer = await server.delete(`/v1/identities/${KNOWN}/verifications/${status}`);
      expectProblem(answer, 400, 'validation_failed', 'status');
    },
  );
});

describe('cursors that the service did not issue', () => {
  const encoded = (state: unknown) => Buffer.from(JSON.stringify(state)).toString('base64url');
  const huge = 9_007_199_254_740_991;
  test.each([
    [`/api/tris-validations/${KNOWN}`, { after: 1_234_567_890_123_456 }],
    [`/api/tris-validations/${KNOWN}`, { after: ['11'] }],
    [`/api/tris-validations/${KNOWN}`, { after: { length: 16 } }],
    [`/api/tris-validations/${KNOWN}`, { after: '11\u0000' }],
    [`/v1/disc/score/${KNOWN}/history`, { p: huge, e: huge, f: huge, b: null, t: 'x', l: 'x' }],
    [`/v1/disc/score/${KNOWN}/history`, { p: -1, e: 0, f: 0, b: 9, t: 'x', l: 'x' }],
    ['/v1/disc/changes', { p: -1, g: '', l: '', m: '' }],
    ['/v1/disc/changes', { p: 1.5, g: '', l: '', m: '' }],
    ['/v1/disc/changes', { p: '1', g: '', l: '', m: '' }],
  ])('%s refuses %j', async (path, state) => {
    expectProblem(await server.get(`${path}?cursor=${encoded(state)}`), 400, 'validation_failed', '?cursor');
  });
});

test('a body without a key is at most 64 KiB', async () => {
  const path = '/v1/tris/auth/siwe/start';
  const start = { address: `0x${'ab'.repeat(20)}`, chain_id: 1 };
  const padded = (bytes: number) => JSON.stringify(start).padEnd(bytes, ' ');
  expect((await server.request('POST', path, { body: padded(65_536) })).status).toBe(200);
  expectProblem(await server.request('POST', path, { body: padded(65_537) }), 413, 'payload_too_large');
  const read = { body: JSON.stringify({ tris_ids: [KNOWN] }).padEnd(65_537, ' ') };
  expectProblem(await server.request('POST', '/v1/disc/score/batch', read), 413, 'payload_too_large');
});

describe('routes without a body', () => {
  test.each([
    ['POST', '/v1/organizations/tris:org/vet'],
    ['POST', '/v1/organizations/tris:org/revoke'],
    ['DELETE', `/v1/identities/${KNOWN}/bad-status`],
    ['DELETE', `/v1/identities/${KNOWN}/verifications/zk-KYH`],
  ])('%s %s refuses one', async (method, path) => {
    expectProblem(await server.request(method, path, { body: { vetted: true } }), 400, 'validation_failed', '/vetted');
    expectProblem(await server.request(method, path, { body: [] }), 400, 'validation_failed', '');
    expectProblem(await server.request(method, path, { body: '{' }), 400, 'malformed_json');
    expectProblem(await server.request(method, `${path}?x=1`), 400, 'validation_failed', '?x');
    expectProblem(await server.request(method, path, { body: long(5e6) }), 413, 'payload_too_large');
  });
});

describe('the address', () => {
  test.each([
    '/api',
    '/v1/disc',
    '/v2/disc/score/tris:a',
    '/api/disc-score',
    '/api/disc-score/',
    '/api//disc-score/tris:a',
    '/API/disc-score/tris:a',
    '/api/disc-score/tris:a/',
    '/%61pi/%00',
    '/.env',
    '/../../etc/passwd',
  ])('%s leads nowhere', async (path) => {
    const answer = await server.send('GET', path);
    expect([400, 404]).toContain(answer.status);
    expect(answer.headers['content-type']).toBe('application/problem+json');
  });

  test('a wrong method gets the list of supported ones', async () => {
    for (const method of ['GET', 'PUT', 'PATCH', 'DELETE']) {
      const answer = await server.send(method, '/api/decision-relay');
      expectProblem(answer, 405, 'method_not_allowed');
      expect(answer.headers.allow).toBe('POST, OPTIONS');
    }
  });
});

test('a request that is not HTTP gets 400 and does not end the server', async () => {
  const { hostname, port } = new URL(server.url);
  const raw = (bytes: string) =>
    new Promise<string>((settle) => {
      const socket = connect(Number(port), hostname, () => socket.write(bytes));
      let text = '';
      socket.on('data', (chunk) => (text += chunk.toString('latin1')));
      socket.on('error', () => settle(text));
      socket.on('close', () => settle(text));
    });
  for (const bytes of [
    'HELLO\r\n\r\n',
    'GET / HTTP/9.9\r\n\r\n',
    `GET /${'a'.repeat(70_000)} HTTP/1.1\r\nHost: x\r\n\r\n`,
    'POST /api/decision-relay HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n',
    'POST /api/decision-relay HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  ]) {
    expect(await raw(bytes)).toMatch(/^HTTP\/1\.1 4\d\d /);
  }
  expect((await server.get('/health/live')).status).toBe(200);
});

test('the server has not failed in any of these tests', () => {
  expect(
    server.errors
      .join('')
      .split('\n')
      .filter((line) => line.includes('"level":"error"')),
  ).toEqual([]);
});
