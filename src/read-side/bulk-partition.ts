import type { DomainEvent } from '../../projections/events.js';
import type { Projection } from '../../projections/projection.js';
import { yieldIfDue } from '../kernel/turn.js';
import { EncodedRows } from '../stores/ports/encoded-rows.js';
import { BuildDamaged, type BuildFolder, NoSpaceToBuild, type Part } from './bulk-files.js';
import { PartitionFold, SortedRows } from './bulk-fold.js';
import { eventsOf } from './packed-events.js';

/** The second step of a bulk build, for one partition: from the files of its events to files of sorted rows. */

export interface PartitionSizes {
  /** Rows of a partition are written to a file when they take this many bytes. */
  runBytes: number;
  /** Bytes of a block, about. */
  blockBytes: number;
}

export interface PartitionFiles {
  partition: number;
  /** The number of partitions. */
  of: number;
  /** Its events, and those that all partitions depend on. */
  own: readonly Part[];
  shared: readonly Part[];
}

/** Before each row of a file: the lengths of its address (16 bits) and of its content (32 bits). */
export const ROW_HEADER = 6;

/** What the fold of a partition throws for the whole build, besides errors of the disk. */
export const PARTITION_ERRORS = [BuildDamaged, NoSpaceToBuild];

/** Folds a partition in memory, and writes its rows to files. @throws BuildDamaged, NoSpaceToBuild */
export async function foldPartition(
  folder: BuildFolder,
  projections: readonly Projection[],
  { partition, of, own, shared }: PartitionFiles,
  sizes: PartitionSizes,
): Promise<Part[]> {
  const rows = new SortedRows();
  const parts: Part[] = [];
  const fold = new PartitionFold(projections, partition, of, rows);
  const sharedEvents = eventsIn(folder, shared);
  try {
    let next = await sharedEvents.next();
    for await (const block of folder.blocks(own)) {
      for (const event of eventsOf(block)) {
        for (; !next.done && next.value.position <= event.position; next = await sharedEvents.next()) {
          fold.applyShared(next.value);
        }
        fold.apply(event);
      }
      await yieldIfDue();
      if (rows.bytes >= sizes.runBytes) parts.push(await writeRows(folder, rows, sizes));
    }
  } finally {
    await sharedEvents.return(undefined);
  }
  for (const _ of fold.finish()) {
    await yieldIfDue();
    if (rows.bytes >= sizes.runBytes) parts.push(await writeRows(folder, rows, sizes));
  }
  parts.push(await writeRows(folder, rows, sizes));
  return parts;
}

export async function* eventsIn(folder: BuildFolder, parts: readonly Part[]): AsyncGenerator<DomainEvent> {
  for await (const block of folder.blocks(parts)) yield* eventsOf(block);
}

/** Writes rows to a file in the order of their addresses, and forgets them. */
export async function writeRows(folder: BuildFolder, rows: SortedRows, sizes: PartitionSizes): Promise<Part> {
  const file = await folder.create('rows');
  try {
    let block = Buffer.allocUnsafeSlow(sizes.blockBytes);
    let used = 0;
    const full: Buffer[] = [];
    const visits = rows.inOrder((chunk, start, middle, end) => {
      const size = ROW_HEADER + end - start + EncodedRows.ROOM;
      if (used + size > block.length) {
        if (used > 0) full.push(block.subarray(0, used));
        block = Buffer.allocUnsafeSlow(Math.max(sizes.blockBytes, size));
        used = 0;
      }
      block.writeUInt16LE(middle - start, used);
      block.writeUInt32LE(end - middle, used + 2);
      chunk.copy(block, used + ROW_HEADER, start, end);
      used += size;
    });
    for (const _ of visits) {
      await yieldIfDue();
      while (full.length > 0) await file.append(full.shift()!);
    }
    if (used > 0) full.push(block.subarray(0, used));
    for (const bytes of full) await file.append(bytes);
    rows.clear();
    return await file.part();
  } finally {
    await file.close();
  }
}
