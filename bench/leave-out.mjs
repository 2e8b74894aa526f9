import { existsSync } from 'node:fs';
import { register } from 'node:module';
import { join } from 'node:path';
import { isMainThread } from 'node:worker_threads';

/**
 * Leaves parts of the work out of a server, to measure what they cost: `node --import bench/leave-out.mjs dist/src/main.js`
 * with their names in LEAVE_OUT, divided by `;`. The service has no such switches: code is added to the end of its built
 * modules while they are loaded. Answers are then wrong, unsafe or not durable.
 */

/** In place of the method of a class, which must exist. */
const method = (type, name, value) =>
  `if (!(${JSON.stringify(name)} in ${type}.prototype)) throw new Error('there is no ${type}.${name}');` +
  `${type}.prototype.${name} = ${value};`;
/** In place of a function of the module. An assignment to a name that does not exist fails. */
const named = (name, value) => `${name} = ${value};`;
/** The first result of the method, whatever it is called with: of each value of `key`, if there is one. */
const first = (type, name, key = '0') =>
  `{ const original = ${type}.prototype.${name}; const first = [];` +
  `${method(type, name, `function (...args) { return (first[${key}] ??= original.apply(this, args)); }`)} }`;
/** In place of a property that the class computes, which must exist. */
const computed = (type, name, value) =>
  `if (!Object.getOwnPropertyDescriptor(${type}.prototype, '${name}')?.get) throw new Error('there is no ${type}.${name}');` +
  `Object.defineProperty(${type}.prototype, '${name}', { get: ${value} });`;

const STORE = 'src/stores/lmdb';
const REMOTE_STORE = 'src/stores/eventstoredb';

/** By name of the part: what is added to the modules, or replaced in them. */
export const PARTS = {
  'rate limit and its headers': {
    'src/http/rate-limit.js': method('RateLimit', 'take', '() => undefined'),
  },
  'request id, ETag and other headers': {
    'src/http/hooks.js': `${named('startAnswer', '() => undefined')} ${named('requestId', "() => ''")}`,
    'src/http/answers.js': `
      sendRead = (reply, { body }) => reply.header('content-type', JSON_TYPE).send(body.text ?? body);
      sendWritten = (reply, { body }) => reply.send(body);`,
  },
  'metrics of requests': {
    'src/http/hooks.js': named('observing', '() => () => undefined'),
  },
  'rows: manifest, look-up, checksum, parsing': {
    [`${STORE}/lmdb-read-models.js`]:
      first('LmdbReadModels', 'read', 'args[1].length') + first('LmdbReadModels', 'manifest'),
  },
  'snapshot of the identity, with its rows': {
    'src/features/disc/identity-reader.js': first('IdentityReader', 'look'),
  },
  'scoring and JSON of the answer': {
    'src/features/disc/score.js': first('ScoreAnswers', 'of'),
  },
  'key of the request': {
    'src/credentials/api-keys.js': first('ApiKeys', 'find'),
  },
  'checks of the body': {
    'src/http/json-body.js': named('parseJson', '(bytes) => JSON.parse(bytes)'),
    'src/http/validation.js': named('readBody', '(type, body) => Object.assign(new type(), body)'),
  },
  'digests of body and event ids': {
    'src/commands/context.js': `let bodies = 0; ${named('bodyHash', "() => String(bodies++).padStart(64, '0')")}`,
    'src/stores/ports/event-encoding.js': `let ids = 0; ${named('eventId', "() => String(ids++).padStart(8, '0') + '-0000-5000-8000-000000000000'")}`,
  },
  'owner of the platform': {
    'src/features/organizations/platforms.js': first('Platforms', 'ownerOf'),
  },
  'limit of metrics, with its two rows': {
    'src/features/relay/metric-limit.js':
      method('MetricLimit', 'accept', 'async () => null') + method('MetricLimit', 'lookUp', 'async () => undefined'),
  },
  'checks and encoding of events': {
    'src/stores/ports/event-encoding.js': named('checkAppend', '(_stream, events) => events.map(() => 400)'),
    [`${STORE}/stored-event.js`]: `{
      const original = writeEntry; let entry;
      writeEntry = (bytes, start, event) => {
        entry ??= Buffer.from(bytes.subarray(start, original(bytes, start, event)));
        return start + entry.copy(bytes, start);
      };
    }`,
    // The projector would otherwise find that these are not its events.
    'src/read-side/manifest.js': named('isInLog', 'async () => true'),
  },
  'sync to the disk': {
    [`${STORE}/environment.js`]: { replace: 'noMetaSync: ', by: 'noSync: true, noMetaSync: ' },
  },
  'log: encoding, index, transaction, sync': {
    [`${STORE}/lmdb-event-store.js`]: `{ let position = 1_000_000; ${method(
      'LmdbEventStore',
      'append',
      '(_stream, _expected, events) => Promise.resolve({ position: (position += events.length), revision: 0 })',
    )} }`,
  },
  'projector: folding and writing rows': {
    'src/read-side/projector.js': method('Projector', 'start', 'async () => undefined'),
  },
  // In their place, the client's unary call.
  'own appends to EventStoreDB': {
    [`${REMOTE_STORE}/append-pipe.js`]: `
      import { UnaryAppends } from '${new URL('unary-appends.mjs', import.meta.url)}';
      { const appends = new UnaryAppends(); ${method(
        'AppendPipe',
        'append',
        'function (...append) { return appends.append(this.connection.link.client, ...append); }',
      )} }`,
    [`${REMOTE_STORE}/append-window.js`]: `
      import { CALLS } from '${new URL('unary-appends.mjs', import.meta.url)}';
      ${computed('AppendWindow', 'size', '() => CALLS')}`,
  },
  'facts of the subject, with its rows': {
    'src/features/access/subjects.js': `{
      const original = observe; const first = {};
      observe = (...args) => (first[args[0]] ??= original(...args));
    }`,
  },
  'rules and how to pass': {
    'src/features/access/access-check.js': `{
      const original = judge; let judgement;
      judge = (...args) => (judgement ??= original(...args));
    }`,
  },
  'token: its claims and signature': {
    'src/features/access/tokens.js': first('EligibilityTokens', 'sign'),
  },
};

const DIST = join(import.meta.dirname, '../dist/');
const leftOut = (process.env.LEAVE_OUT ?? '').split(';').filter(Boolean);

/** By address of a module: the changes to it. */
const changes = new Map();
for (const name of leftOut) {
  if (!PARTS[name]) throw new Error(`there is no part "${name}" to leave out`);
  for (const [file, change] of Object.entries(PARTS[name])) {
    if (!existsSync(DIST + file)) throw new Error(`"${name}" is no longer in ${file}`);
    const address = `file://${DIST}${file}`;
    changes.set(address, [...(changes.get(address) ?? []), change]);
  }
}

/** A hook of the module loader, which Node runs on a thread of its own. */
export async function load(url, context, next) {
  const loaded = await next(url, context);
  if (!changes.has(url)) return loaded;
  let source = String(loaded.source);
  for (const change of changes.get(url)) {
    if (typeof change === 'string') source += `\n${change}`;
    else if (source.split(change.replace).length === 2) source = source.replace(change.replace, change.by);
    else throw new Error(`${url} does not contain "${change.replace}" once`);
  }
  return { ...loaded, source };
}

if (isMainThread && leftOut.length > 0) register(import.meta.url);
