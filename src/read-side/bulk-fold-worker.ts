import { parentPort, workerData } from 'node:worker_threads';
import { PROJECTIONS } from './all-projections.js';
import { sentError } from '../kernel/thread-error.js';
import { BuildFolder } from './bulk-files.js';
import type { FoldAnswer, FoldSetup } from './bulk-fold-thread.js';
import { PARTITION_ERRORS, type PartitionFiles, foldPartition } from './bulk-partition.js';

/** The thread of `bulk-fold-thread.ts`: each message is a partition to fold. */
const setup = workerData as FoldSetup;
const folder = new BuildFolder(setup.folder, setup.sizes.reservedBytes);
const projections = PROJECTIONS.filter(({ name }) => setup.projections.includes(name));

parentPort!.on('message', async (files: PartitionFiles) => {
  const answer: FoldAnswer = await foldPartition(folder, projections, files, setup.sizes).then(
    (parts) => ({ parts }),
    (error: Error) => ({ failure: sentError(error, PARTITION_ERRORS) }),
  );
  parentPort!.postMessage(answer);
});
