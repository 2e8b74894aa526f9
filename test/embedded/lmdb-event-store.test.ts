import { join } from 'node:path';
import { LmdbEventStore } from '../../src/event-store/lmdb-event-store.js';
import { describeEventStore } from '../contracts/event-store.contract.js';
import { temporaryFolder } from './temporary-folder.js';

describeEventStore('LMDB', async () => {
  const folder = await temporaryFolder();
  return { open: () => LmdbEventStore.open(join(folder.path, 'log')), destroy: folder.remove };
});
