import { readdir } from 'node:fs/promises';
import { open } from 'lmdb';
import { rebuild } from '../dist/src/read-side/generations.js';
import { closeStores, openStores } from '../dist/src/stores/open.js';
import { inTemporaryFolder } from './measure.mjs';
import { fillLog } from './population.mjs';

/** As many bytes as two checksums in hexadecimal digits take in the text of an event. */
const CHECKSUMS = `,"crc":"${'0'.repeat(16)}"}`;
const ACTIONS_EACH = 5;

/** Bytes of pages in log and read models for each action: as stored, and with events as JSON text. */
export function bytesOfActions(identities) {
  return inTemporaryFolder(async (data) => {
    await fillLog(data, identities, ACTIONS_EACH);
    const stores = await openStores(data, Date.now);
    const { id } = await rebuild('all', stores.eventStore, stores.readModels, new AbortController().signal);
    const text = await bytesAsText(`${data}/text`, stores.eventStore);
    await closeStores(stores);
    const log = await bytesIn(`${data}/log`);
    const generation = (await readdir(`${data}/views`)).find((name) => name.endsWith(id));
    const { total: rows } = await bytesIn(`${data}/views/${generation}`);
    const actions = identities * ACTIONS_EACH;
    return { ours: (log.total + rows) / actions, text: (log.total - log.events + text + rows) / actions };
  });
}

async function bytesAsText(path, eventStore) {
  const root = open({ path, noSubdir: false });
  const events = root.openDB({ name: 'events', keyEncoding: 'uint32', encoding: 'string' });
  for await (const slice of eventStore.readAll(0)) {
    await events.transaction(() => {
      for (const { position, ...event } of slice) events.put(position, JSON.stringify(event).slice(0, -1) + CHECKSUMS);
    });
  }
  await root.close();
  return (await bytesIn(path)).events;
}

/** Bytes of the pages of each database of an environment, and of all. */
async function bytesIn(path) {
  const root = open({ path, noSubdir: false, readOnly: true });
  const bytes = { total: 0 };
  // A database cannot be opened while their names are read.
  const names = [...root.getKeys()];
  for (const name of names) {
    const { pageSize, treeLeafPageCount, treeBranchPageCount, overflowPages } = root.openDB({ name }).getStats();
    bytes[name] = pageSize * (treeLeafPageCount + treeBranchPageCount + overflowPages);
    bytes.total += bytes[name];
  }
  await root.close();
  return bytes;
}
