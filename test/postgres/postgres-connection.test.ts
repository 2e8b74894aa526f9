import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chownSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import pg from 'pg';
import { sentenceOf } from '../../src/app/start-failure.js';
import type { Json } from '../../src/kernel/json.js';
import { Logger } from '../../src/kernel/logger.js';
import { StartError } from '../../src/kernel/start-error.js';
import { EncodedRows, PlacedRows } from '../../src/stores/ports/encoded-rows.js';
import { StoreUnavailable } from '../../src/stores/ports/event-store.js';
import { startOf } from '../../src/stores/ports/read-models.js';
import { PostgresReadModels } from '../../src/stores/postgres/postgres-read-models.js';
import { eventually } from '../contracts/harness.js';
import { blocks, read, section } from '../docs/markdown.js';
import { canMount, longTest } from '../faults/faults.js';
import { freePort } from '../servers/ports.js';
import { AS_SERVER } from '../servers/postgres-folder.mjs';
import { SmallDisk } from '../faults/small-disk.js';
import { PostgresServer, type TestDatabase, describePostgres } from '../servers/postgres.js';
import { Proxy } from '../servers/proxy.js';

/** What a call is told that did not wait for the server. */
const AT_ONCE = /^PostgreSQL at \S+ is unavailable$/;
const LOG = 'log';
/** For most that takes as long as PostgreSQL is waited for. */
const SOON_MS = 4_000;

let postgres: PostgresServer;
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** Rows that are written in batches of one, each on top of the one before: that of the batch 3 has the key k3. */
class Rows {
  readonly lines: string[] = [];
  /** The batches that were acknowledged. */
  applied = 0;

  /** @param url by default, of a new database */
  static async open(url?: string): Promise<Rows> {
    let of = url;
    if (of === undefined) {
      const database = await postgres.database();
      closing.push(() => database.drop());
      of = database.url;
    }
    const lines: string[] = [];
    const logger = new Logger('warn', (line) => void lines.push(line));
    const models = await PostgresReadModels.open({ url: of, folder: postgres.folder, logger });
    closing.push(() => models.close());
    const rows = new Rows(models, of, lines);
    await models.createGeneration('g1', { people: 1 }, LOG);
    await rows.lease();
    await rows.apply();
    return rows;
  }

  private constructor(
    readonly models: PostgresReadModels,
    readonly url: string,
    lines: string[],
  ) {
    this.lines = lines;
  }

  async lease(): Promise<void> {
    expect(await this.models.acquireLease('g1', 'me', 600_000)).toBe(true);
  }

  /** @param id an earlier one repeats its batch */
  send(n: number, id = randomUUID()): Promise<'applied' | 'refused'> {
    const at = (position: number) => (position === 0 ? startOf(LOG) : { log: LOG, position, event_id: `e${position}` });
    const puts = EncodedRows.of([{ row: { view: 'people', key: `k${n}` }, value: n }]);
    return this.models.apply('g1', { id, base: at(n - 1), holder: 'me', next: at(n), puts, deletes: [] });
  }

  async apply(): Promise<void> {
    expect(await this.send(this.applied + 1)).toBe('applied');
    this.applied++;
  }

  /** The value of the first row. */
  async read(): Promise<unknown> {
    return (await this.models.read('g1', [{ get: { view: 'people', key: 'k1' } }]))!.results[0];
  }

  /** The stored position, with the rows of all batches up to it and of none after it. */
  async position(): Promise<number> {
    const queries = Array.from({ length: this.applied + 20 }, (_, i) => ({
      get: { view: 'people', key: `k${i + 1}` },
    }));
    const { checkpoint, results } = (await this.models.read('g1', queries))!;
    const expected = queries.map((_, i) => (i < checkpoint.position ? i + 1 : undefined));
    expect(results).toEqual(expected);
    return checkpoint.position;
  }

  /** Goes on from what is stored. */
  async resume(): Promise<void> {
    await answered(() => this.models.manifest());
    this.applied = await answered(() => this.position());
    await answered(() => this.lease());
    await answered(() => this.apply());
    expect(await this.position()).toBe(this.applied);
  }
}

/** Repeats a call that the store does not answer. */
async function answered<T>(call: () => Promise<T>): Promise<T> {
  let answer: T;
  let last: unknown;
  const isAnswered = async () => {
    try {
      answer = await call();
      return true;
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error;
      last = error;
      return false;
    }
  };
  await eventually(isAnswered, 'an answer').catch((cause: unknown) => {
    throw new Error(`no answer; the last attempt failed with ${String(last)}`, { cause });
  });
  return answer!;
}

/** A call's refusal: the only one that a store which does not answer may give. */
async function refusalOf(call: () => Promise<unknown>): Promise<StoreUnavailable | undefined> {
  try {
    await call();
    return undefined;
  } catch (error) {
    expect(error).toBeInstanceOf(StoreUnavailable);
    return error as StoreUnavailable;
  }
}

const refused = (call: () => Promise<unknown>, what = 'a refusal') =>
  eventually(async () => (await refusalOf(call)) !== undefined, what);
const refusedAtOnce = (call: () => Promise<unknown>) =>
  eventually(async () => AT_ONCE.test((await refusalOf(call))?.message ?? ''), 'a refusal at once');

/** An answer of a server with which a session ends: docs of PostgreSQL, message formats. */
function fatal(code: string, message: string): Buffer {
  const answer = Buffer.from(`E\0\0\0\0SFATAL\0VFATAL\0C${code}\0M${message}\0\0`);
  answer.writeInt32BE(answer.length - 1, 1);
  return answer;
}

/** ms */
async function timeOf(action: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await action();
  return performance.now() - started;
}

/** Rows to be loaded. */
function placed(keys: readonly string[], value: Json = 1): PlacedRows {
  const rows = new PlacedRows();
  const encoded = EncodedRows.of(keys.map((key) => ({ row: { view: 'people', key }, value })));
  encoded.forEach((...place) => rows.add(...place));
  return rows;
}

/** A session beside the service. */
async function session(database: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database });
  client.on('error', () => undefined);
  await client.connect();
  closing.push(() => client.end());
  return client;
}

const asAdmin = (url: string): string => url.replace('credence@', 'postgres@');

describePostgres('a PostgreSQL that cannot be used stops the boot with one sentence', () => {
  beforeAll(async () => {
    postgres = await PostgresServer.start();
  });
  afterAll(() => postgres?.stop());

  async function sentence(url: string): Promise<string> {
    const opened = PostgresReadModels.open({ url, folder: postgres.folder });
    const error = await opened.then(
      async (models) => {
        await models.close();
        throw new Error('it was used');
      },
      (refusal: unknown) => refusal,
    );
    expect(error).toBeInstanceOf(StartError);
    const { message } = error as Error;
    expect(message).toMatch(/^[^\n]+\.$/);
    expect(message).toContain('CREDENCE_DATABASE_URL');
    expect(message).not.toMatch(/secret/);
    return message;
  }

  const place = (user: string, port: number, database = 'credence') =>
    `postgres://${user}@127.0.0.1:${port}/${database}`;

  test('no server listens', async () => {
    expect(await sentence(place('me:secret', await freePort()))).toMatch(/ cannot be used: .*ECONNREFUSED/);
  });

  test('the listening server does not answer, or closes every connection', async () => {
    for (const listener of [() => undefined, (socket: { end(): void }) => void socket.end()]) {
      const server = createServer(listener).listen(0, '127.0.0.1');
      await once(server, 'listening');
      const { port } = server.address() as { port: number };
      expect(await sentence(place('me:secret', port))).toMatch(/ cannot be used: /);
      server.close();
    }
  });

  test('the password is another one', async () => {
    const url = await postgres.guardedUrl('right');
    expect(await sentence(url.replace('right', 'secret'))).toMatch(
      /password authentication failed for user "guarded"\.$/,
    );
  });

  test('there is no such database', async () => {
    expect(await sentence(place('credence', postgres.port, 'other'))).toMatch(/database "other" does not exist\.$/);
  });

  test('the user may not make the tables', async () => {
    await postgres.sql('CREATE ROLE stranger LOGIN');
    expect(await sentence(place('stranger', postgres.port))).toMatch(
      /permission denied for database credence: the user of CREDENCE_DATABASE_URL needs the right CREATE on the database/,
    );
  });

  test('the tables are of a newer build', async () => {
    const database = await postgres.database();
    closing.push(() => database.drop());
    await (await PostgresReadModels.open({ url: database.url, folder: postgres.folder })).close();
    await postgres.sql('INSERT INTO credence_store.migrations (number) VALUES (999)', database.url);
    expect(await sentence(database.url)).toMatch(
      /was migrated to version 999 by a newer build; this one knows \d+: start /,
    );
  });

  test.each(['?options=-c%20search_path=secret', '?sslmode=disable&options=', '?sslrootcert=/none/secret'])(
    'its URL ends with %s',
    async (end) => {
      expect(await sentence(`${postgres.url}${end}`)).toMatch(/^CREDENCE_DATABASE_URL must /);
    },
  );

  test.each(['http://me:secret@db/credence', 'postgres://me:secret@db:port/credence', 'secret'])(
    'its URL is %s',
    async (url) => {
      expect(await sentence(url)).toMatch(/^CREDENCE_DATABASE_URL must have the form /);
    },
  );

  test('it is a pooler that gives each transaction another session', async () => {
    const answer = fatal('08P01', 'unsupported startup parameter: options');
    const pooler = createServer((socket) => socket.once('data', () => socket.end(answer))).listen(0, '127.0.0.1');
    await once(pooler, 'listening');
    const { port } = pooler.address() as { port: number };
    expect(await sentence(place('me:secret', port))).toMatch(
      /unsupported startup parameter: options\. It seems to be a pooler: /,
    );
    pooler.close();
  });

  test('it ends a connection in the same bytes as its answer to the login', async () => {
    const answer = fatal('57P01', 'terminating connection due to unexpected postmaster exit');
    const ready = Buffer.from('Z\0\0\0\x05I', 'latin1');
    let ended = 0;
    const proxy = createServer((client) => {
      const server = connect(postgres.port, '127.0.0.1');
      client.on('error', () => server.destroy()).pipe(server);
      server
        .on('error', () => client.destroy())
        .on('data', (data) => {
          client.write(data.subarray(-ready.length).equals(ready) && ++ended ? Buffer.concat([data, answer]) : data);
        });
    }).listen(0, '127.0.0.1');
    await once(proxy, 'listening');
    closing.push(async () => void proxy.close());
    const { port } = proxy.address() as { port: number };
    expect(await sentence(place('credence', port))).toMatch(/ cannot be used: /);
    expect(ended).toBeGreaterThan(0);
  });

  test('it is a standby', async () => {
    const standby = await postgres.standby();
    closing.push(() => standby.stop());
    expect(await sentence(standby.url)).toMatch(/it is a standby, which takes no writes\.$/);
  });

  test('it has no connection left', async () => {
    const small = await PostgresServer.start({ max_connections: '5', superuser_reserved_connections: '1' });
    closing.push(() => small.stop());
    for (let n = 0; n < 3; n++) await session(small.url);
    expect(await sentence(small.url)).toMatch(/ cannot be used: .*(too many clients|remaining connection slots)/);
  });
});

describePostgres('read models in a PostgreSQL', () => {
  beforeAll(async () => {
    postgres = await PostgresServer.start({ max_connections: '30', wal_writer_delay: '10s' });
  });
  afterAll(() => postgres?.stop());

  test('that is killed under load: calls end as unavailable, then at once; it goes on by itself from what is stored', async () => {
    const rows = await Rows.open();
    const { restarts } = rows.models;
    let ended = false;
    const load = Array.from({ length: 8 }, async () => {
      // What is refused at once would leave no time for anything else.
      while (!ended) if (await refusalOf(() => rows.read())) await sleep(5);
    });
    const writes = (async () => {
      for (;;) if ((await refusalOf(() => rows.apply())) !== undefined) return;
    })();
    await eventually(() => rows.applied > 50, 'batches');
    await postgres.kill();
    await writes;
    await refusedAtOnce(() => rows.read());
    expect(
      await timeOf(() => Promise.all(Array.from({ length: 100 }, () => refusalOf(() => rows.read())))),
    ).toBeLessThan(500);
    const before = rows.applied;
    await postgres.run();
    await rows.resume();
    ended = true;
    await Promise.all(load);
    // One may be stored whose answer was lost; the last ones may be lost.
    expect(rows.applied - 1).toBeLessThanOrEqual(before + 1);
    expect(rows.models.restarts).toBeGreaterThan(restarts);
    await eventually(
      () => /is unavailable: [^"]+".*is back"/s.test(rows.lines.join('')),
      'a line that says it is back',
    );
  });

  test('that is stopped: calls end after 2 to 3 s, then at once, and it goes on by itself', async () => {
    const rows = await Rows.open();
    const id = randomUUID();
    postgres.pause();
    try {
      const written = rows.send(2, id);
      const first = await timeOf(() =>
        Promise.all(Array.from({ length: 64 }, () => expect(rows.read()).rejects.toThrow(StoreUnavailable))),
      );
      expect(first).toBeLessThan(SOON_MS);
      await refusedAtOnce(() => rows.read());
      expect(await timeOf(() => refusalOf(() => rows.read()))).toBeLessThan(100);
      postgres.resume();
      // Its answer comes late, if at all; the same one is not applied twice.
      await refusalOf(() => written);
      expect(await answered(() => rows.send(2, id))).toBe('applied');
      expect(await answered(() => rows.position())).toBe(2);
    } finally {
      postgres.resume();
    }
  });

  test('whose server processes die: all connections are made anew, and what was committed may be lost', async () => {
    const rows = await Rows.open();
    for (let n = 0; n < 5; n++) await rows.apply();
    const { restarts } = rows.models;
    await postgres.killBackend();
    await rows.resume();
    await eventually(() => rows.models.restarts > restarts, 'a restart');
  });

  test('that is read-only: reads go on, batches are unavailable, and go on once it is writable', async () => {
    const rows = await Rows.open();
    const { restarts } = rows.models;
    const set = async (value: string) => {
      await postgres.sql(`ALTER SYSTEM SET default_transaction_read_only = ${value}`);
      await postgres.sql('SELECT pg_reload_conf()');
    };
    await set('on');
    try {
      const id = randomUUID();
      await refused(async () => {
        await rows.send(2, id);
        rows.applied = 2;
        await rows.apply();
      });
      expect(await refusalOf(() => rows.models.acquireLease('g1', 'me', 1_000))).toBeDefined();
      for (let n = 0; n < 20; n++) expect(await rows.read()).toBe(1);
      expect(rows.models.main.isUnavailable).toBe(false);
    } finally {
      await set('off');
    }
    await rows.resume();
    expect(rows.models.restarts).toBe(restarts);
  });

  test('that is read-only for its database is writable again after what the runbook says', async () => {
    const rows = await Rows.open();
    const admin = await session(asAdmin(rows.url));
    const name = new URL(rows.url).pathname.slice(1);
    await admin.query(`ALTER DATABASE ${name} SET default_transaction_read_only = on`);
    await admin.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'credence'");
    await refused(() => rows.apply());
    const [remedy] = blocks(section(read('docs/runbook.md'), 'PostgreSQL is read-only'));
    const operator = await session(asAdmin(rows.url));
    for (const statement of remedy!.text.replaceAll('DATABASE credence', `DATABASE ${name}`).split(';\n')) {
      await operator.query(statement);
    }
    await rows.resume();
  });

  test('that has no connection left for others goes on with those that it has', async () => {
    const rows = await Rows.open();
    const others: pg.Client[] = [];
    const url = postgres.url;
    const takeAll = async () => {
      for (;;) others.push(await session(url));
    };
    await expect(takeAll()).rejects.toThrow(/too many clients|remaining connection slots/);
    await Promise.all(Array.from({ length: 50 }, (_, n) => (n % 10 === 0 ? rows.models.generations() : rows.read())));
    for (let n = 0; n < 5; n++) await rows.apply();
    // Those that it has are lost, and others have taken all.
    await postgres.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'credence'");
    await expect(takeAll()).rejects.toThrow(/too many clients|remaining connection slots/);
    await refused(() => rows.read());
    for (const other of others) await other.end();
    await rows.resume();
    expect(await rows.position()).toBeGreaterThan(5);
  });

  (canMount() ? test : test.skip)(
    'whose disk is full: batches say so, reads go on, and batches do with space',
    async () => {
      const disk = new SmallDisk(20);
      let database: TestDatabase | undefined;
      let rows: Rows | undefined;
      try {
        const { uid, gid } = AS_SERVER;
        if (uid !== undefined) chownSync(disk.folder, uid, gid!);
        await postgres.sql(`CREATE TABLESPACE small LOCATION '${disk.folder}'`);
        database = await postgres.database('TABLESPACE small');
        rows = await Rows.open(database.url);
        disk.fill();
        const large = EncodedRows.of(
          Array.from({ length: 2_000 }, (_, n) => ({
            row: { view: 'people', key: `l${n}` },
            value: 'x'.repeat(1_000),
          })),
        );
        const batch = {
          id: randomUUID(),
          base: { log: LOG, position: 1, event_id: 'e1' },
          holder: 'me',
          next: { log: LOG, position: 2, event_id: 'e2' },
          puts: large,
          deletes: [],
        };
        const apply = () => rows!.models.apply('g1', batch);
        expect(await refusalOf(apply)).toMatchObject({ code: 'store_full' });
        for (let n = 0; n < 20; n++) expect(await rows.read()).toBe(1);
        expect(rows.models.main.isUnavailable).toBe(false);
        disk.free();
        expect(await answered(apply)).toBe('applied');
        expect(rows.lines).toEqual([expect.stringMatching(/nothing is applied to the read models: .*No space left/)]);
      } finally {
        await rows?.models.close();
        await database?.drop();
        await postgres.sql('DROP TABLESPACE IF EXISTS small');
        disk.unmount();
      }
    },
  );

  (canMount() ? longTest : test.skip)(
    'whose log of changes has no space ends, and goes on once it has space and is started again',
    async () => {
      const disk = new SmallDisk(160);
      const full = await PostgresServer.start({}, disk.folder);
      try {
        const rows = await Rows.open(full.url);
        disk.fill();
        await eventually(async () => {
          await full.sql('SELECT pg_switch_wal()').catch(() => undefined);
          if ((await refusalOf(() => rows.send(rows.applied + 1))) === undefined) rows.applied++;
          return full.hasEnded;
        }, 'its end');
        await refusedAtOnce(() => rows.read());
        disk.free();
        await full.run();
        await rows.resume();
      } finally {
        await Promise.all(closing.splice(0).map((close) => close()));
        await full.stop();
        disk.unmount();
      }
    },
  );

  describe('behind a network', () => {
    let network: Proxy;
    let rows: Rows;
    beforeEach(async () => {
      network = await Proxy.to(postgres.port);
      closing.push(() => network.close());
      const database = await postgres.database();
      closing.push(() => database.drop());
      rows = await Rows.open(database.url.replace(`:${postgres.port}/`, `:${network.port}/`));
    });

    longTest(
      'whose answers take 2 s: calls end as unavailable, and no answer is taken for that of another call',
      async () => {
        network.delayMs = 2_000;
        const until = performance.now() + 8_000;
        while (performance.now() < until) {
          const refusals = await Promise.all(
            Array.from({ length: 8 }, (_, n) =>
              refusalOf(async () => {
                const key = `k${n + 1}`;
                const { results } = (await rows.models.read('g1', [{ get: { view: 'people', key } }]))!;
                expect(results).toEqual([n === 0 ? 1 : undefined]);
              }),
            ),
          );
          if (refusals.every((refusal) => refusal !== undefined)) await sleep(50);
        }
        network.delayMs = 0;
        await rows.resume();
      },
    );

    test('whose answers take half a second: calls take longer', async () => {
      network.delayMs = 500;
      for (let n = 0; n < 3; n++) {
        await rows.apply();
        expect(await rows.read()).toBe(1);
      }
      expect(rows.models.main.isUnavailable).toBe(false);
      network.delayMs = 0;
      expect(await rows.position()).toBe(4);
    });

    test.each([0, 0.5])(
      'that cuts connections after this part of an answer: %s; a repeated batch is applied once',
      async (part) => {
        for (let n = 2; n < 12; n++) {
          const id = randomUUID();
          network.loseNextAnswer(part);
          await refusalOf(() => rows.read());
          network.loseNextAnswer(part);
          expect(await answered(() => rows.send(n, id))).toBe('applied');
          rows.applied = n;
        }
        expect(network.lostAnswers).toBeGreaterThanOrEqual(10);
        expect(await answered(() => rows.position())).toBe(11);
      },
    );

    test('that was cut: once a call is answered, no later one is refused', async () => {
      for (let round = 0; round < 4; round++) {
        network.target = await freePort();
        network.cut();
        await refused(() => rows.read());
        const failed_ms = performance.now();
        await sleep(850);
        network.target = postgres.port;
        await answered(() => rows.read());
        while (performance.now() < failed_ms + 1_400) {
          expect(await rows.read()).toBe(1);
          await sleep(10);
        }
        await eventually(() => !rows.models.main.isUnavailable, 'it counts as available');
      }
    });

    test('that is gone without a word: calls end in time, and it goes on by itself', async () => {
      network.freeze();
      const first = await timeOf(() => Promise.all(Array.from({ length: 20 }, () => refusalOf(() => rows.read()))));
      expect(first).toBeLessThan(SOON_MS);
      expect(await answered(() => rows.read())).toBe(1);
      await rows.resume();
    });

    test('that is gone without a word while rows are loaded: the load ends in time, and another one begins', async () => {
      const { models } = rows;
      await models.createGeneration('g2', { people: 1 }, LOG);
      await models.acquireLease('g2', 'me', 600_000);
      const load = (await models.load('g2', 'me'))!;
      expect(await load.append(placed(['a']))).toBe(true);
      // Once it is said that more may be loaded.
      const ask = jest.spyOn(models.main, 'rows').mockImplementationOnce(async () => {
        network.freeze();
        return [[true]];
      });
      expect(await refusalOf(() => load.append(placed(['b'])))).toBeDefined();
      ask.mockRestore();
      const next = (await answered(() => models.load('g2', 'me')))!;
      expect(await next.append(placed(['c']))).toBe(true);
      expect(await next.finish({ log: LOG, position: 1, event_id: 'e1' })).toBe(true);
    });
  });

  test('a batch that waits for another session’s lock ends as unavailable in time, and is applied once it is free', async () => {
    const { url, drop } = await postgres.database();
    closing.push(drop);
    const rows = await Rows.open(url);
    const other = await session(asAdmin(url));
    await other.query("BEGIN; SELECT 1 FROM credence_store.generations WHERE id = 'g1' FOR UPDATE");
    const waited = await timeOf(async () => expect(await refusalOf(() => rows.apply())).toBeDefined());
    expect(waited).toBeLessThan(SOON_MS);
    expect(await rows.read()).toBe(1);
    await other.query('ROLLBACK');
    await rows.resume();
  });

  test.each([
    ['cannot be serialized twice', '40001', 2, 'applied'],
    ['cannot be serialized again and again', '40001', 1_000, undefined],
    ['loses a deadlock twice', '40P01', 2, 'applied'],
  ])('a batch that %s is repeated a few times, and applied once', async (_what, code, times, outcome) => {
    const { url, drop } = await postgres.database();
    closing.push(drop);
    const rows = await Rows.open(url);
    const fails = `
      CREATE SEQUENCE public.tries;
      GRANT ALL ON SEQUENCE public.tries TO credence;
      CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('public.tries') <= ${times} THEN RAISE SQLSTATE '${code}'; END IF;
        RETURN NEW;
      END $$;
      CREATE TRIGGER fail BEFORE UPDATE ON credence_store.generations FOR EACH ROW EXECUTE FUNCTION public.fail()`;
    await postgres.sql(fails, asAdmin(url));
    let answer: unknown;
    const refusal = await refusalOf(async () => (answer = await rows.send(2)));
    expect([answer, refusal === undefined]).toEqual([outcome, outcome !== undefined]);
    expect(Number(await postgres.sql('SELECT last_value FROM public.tries', asAdmin(url)))).toBe(outcome ? 3 : 4);
    expect(await rows.position()).toBe(outcome ? 2 : 1);
  });

  test('batches that take long are not given up by those that wait for them', async () => {
    const { url, drop } = await postgres.database();
    closing.push(drop);
    const rows = await Rows.open(url);
    const slow = `
      CREATE FUNCTION public.wait() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_sleep(0.5); RETURN NEW; END $$;
      CREATE TRIGGER wait BEFORE UPDATE ON credence_store.generations FOR EACH ROW EXECUTE FUNCTION public.wait()`;
    await postgres.sql(slow, asAdmin(url));
    const batches = Array.from({ length: 8 }, (_, n) => rows.send(n + 2));
    expect(await Promise.all(batches)).toEqual(batches.map(() => 'applied'));
    expect(rows.models.main.isUnavailable).toBe(false);
  });

  test('of which a process is paused in the middle of a transaction: another one takes its lease over in time', async () => {
    const { url, drop } = await postgres.database();
    closing.push(drop);
    const { models } = await Rows.open(url);
    const other = await PostgresReadModels.open({ url, folder: postgres.folder });
    closing.push(() => other.close());
    await models.createGeneration('g2', { people: 1 }, LOG);
    await models.acquireLease('g2', 'me', 2_000);
    const load = (await models.load('g2', 'me'))!;
    const transaction = models.main.transaction.bind(models.main);
    const paused = new Promise<never>(() => undefined);
    const locked = new Promise<void>((resolve) => {
      models.main.transaction = (work) =>
        transaction((client) => {
          const query = async (...statement: [never]) => {
            await client.query(...statement);
            resolve();
            return paused;
          };
          return work({ query } as never);
        });
    });
    void load.finish({ log: LOG, position: 1, event_id: 'e1' });
    await locked;
    const isTaken = () => other.acquireLease('g2', 'you', 2_000).catch(() => false);
    expect(await timeOf(() => eventually(isTaken, 'another holder'))).toBeLessThan(10_000);
  });

  test('of which a machine is lost: its sessions, and their locks, are given up within 20 s', async () => {
    const { url, drop } = await postgres.database();
    closing.push(drop);
    const { models } = await Rows.open(url);
    // As the system has it for the server's end of the connection; only without the machine would it be seen to act.
    const names = ['tcp_keepalives_idle', 'tcp_keepalives_interval'];
    const text = `SELECT ${names.map((name) => `current_setting('${name}')`).join()}`;
    expect(await models.main.rows({ text })).toEqual([['10', '1']]);
  });

  test('a load whose table has another holder since the server went back writes nothing to it', async () => {
    const { url, drop } = await postgres.database();
    closing.push(drop);
    const { models } = await Rows.open(url);
    await models.createGeneration('g2', { people: 1 }, LOG);
    await models.acquireLease('g2', 'me', 600_000);
    const load = (await models.load('g2', 'me'))!;
    expect(await load.append(placed(['a']))).toBe(true);
    await postgres.sql("UPDATE credence_store.parts SET holder = 'you' WHERE generation = 'g2'", url);
    expect(await load.append(placed(['b']))).toBe(false);
    expect(await load.finish({ log: LOG, position: 1, event_id: 'e1' })).toBe(false);
  });

  test('a statement that breaks the protocol is refused, and the server counts as available', async () => {
    const { url, drop } = await postgres.database();
    closing.push(drop);
    const { models, lines } = await Rows.open(url);
    const statement = { name: 'two', text: 'SELECT $1::text, $2::text', values: ['a'] };
    await expect(models.main.rows(statement)).rejects.toMatchObject({ name: 'StatementRefused', code: '08P01' });
    expect([models.main.isUnavailable, lines]).toEqual([false, []]);
  });

  test('without the table of migrations it says once what to do, and goes on when that is done', async () => {
    const { url, drop } = await postgres.database();
    closing.push(drop);
    const rows = await Rows.open(url);
    await postgres.sql('DROP TABLE credence_store.migrations', url);
    await refused(() => rows.read());
    await sleep(3_000);
    expect(rows.lines).toEqual([
      expect.stringMatching(
        /is unavailable: .* credence_store\.migrations is gone or empty, .* docs\/runbook\.md says/,
      ),
    ]);
    const opened = PostgresReadModels.open({ url, folder: postgres.folder });
    const sentence = sentenceOf(await opened.catch((error: unknown) => error))!;
    expect(sentence.match(/credence_store\.migrations is gone or empty/g)).toHaveLength(1);
    expect(sentence).toMatch(/docs\/runbook\.md says\.$/);
    const [remedy] = blocks(section(read('docs/runbook.md'), 'The table of migrations is gone'));
    await postgres.sql(remedy!.text, url);
    await rows.resume();
    // A statement may be answered before the check of the connection says that the server is back.
    await eventually(() => rows.lines.length === 2, 'a line that says so');
  });

  test('works with the rights that are documented, and has no more', async () => {
    await postgres.sql('CREATE ROLE narrow LOGIN');
    await postgres.sql('CREATE DATABASE narrow');
    await postgres.sql('REVOKE ALL ON DATABASE narrow FROM PUBLIC');
    await postgres.sql('GRANT CONNECT, CREATE ON DATABASE narrow TO narrow');
    const url = `postgres://narrow@127.0.0.1:${postgres.port}/narrow`;
    closing.push(() => postgres.sql('DROP DATABASE narrow WITH (FORCE)'));
    const rows = await Rows.open(url);
    const { models } = rows;
    await rows.apply();
    expect(await rows.position()).toBe(2);
    await models.setStatus('g1', 'ready');
    const manifest = { revision: 1, lens: { policy_id: null, content_hash: 'h' }, model_hash: 'h', lens_revision: -1 };
    expect(await models.swapManifest({ ...manifest, views: { people: 'g1' }, previous_views: null })).toBe(true);
    await models.createGeneration('g2', { people: 1 }, LOG);
    await models.acquireLease('g2', 'me', 60_000);
    const load = (await models.load('g2', 'me'))!;
    expect(await load.finish({ log: LOG, position: 1, event_id: 'e1' })).toBe(true);
    await models.dropGeneration('g1');
    expect(await rows.read().catch(() => undefined)).toBeUndefined();
    const rights = `
      SELECT rolsuper, rolcreatedb, rolcreaterole, rolreplication, has_database_privilege(current_database(), 'TEMP')
      FROM pg_roles WHERE rolname = current_user`;
    expect(await postgres.sql(rights, url)).toBe('f|f|f|f|f');
    expect(await postgres.sql("SELECT count(*) FROM pg_class WHERE relname ~ '^rows_' AND relkind = 'r'", url)).toBe(
      '1',
    );
  });
});
