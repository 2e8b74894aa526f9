/**
 * Prints the anonymous memory in MB after a rebuild of the log in a folder. A process of its own, which loads only what a
 * rebuild needs: other benchmarks load libraries that take more than a rebuild does.
 */
import { rebuild } from '../dist/src/read-side/generations.js';
import { closeStores, openStores } from '../dist/src/stores/open.js';
import { rssAnon } from './measure.mjs';

const stores = await openStores(process.argv[2], Date.now);
await rebuild('all', stores.eventStore, stores.readModels, new AbortController().signal);
console.log(await rssAnon());
await closeStores(stores);
