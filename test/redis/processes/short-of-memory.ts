import { Follower } from '../../../src/read-side/follower.js';
import { RedisReadModels } from '../../../src/stores/redis/redis-read-models.js';
import { openLog, watchClaims } from '../sharing.js';

/** Builds a generation of a log that seems to have more events, in parts that fit its memory. Says which it claims. */
const [folder, url, prefix, id, every] = process.argv.slice(2) as [string, string, string, string, string];
const store = await openLog(folder);
const { marks } = store;
store.marks = (after) => marks!(after, Number(every));
const say = (line: unknown) => process.stdout.write(`${JSON.stringify(line)}\n`);
const models = watchClaims(await RedisReadModels.open({ url, prefix }), (part) => void say({ part }));
const { signal } = new AbortController();
say({ ended: await new Follower(store, models).follow(id, { signal, toHead: true }) });
process.exit();
