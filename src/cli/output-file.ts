import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { PassThrough } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { TargetRefused, requireSpace, writtenAside } from '../stores/written-aside.js';

/** A file that gets its name once the command has written all of it. A device or a pipe is written directly. */
export interface OutputFile {
  /** @throws TargetRefused if the file cannot be written, or its disk is full */
  write(text: string): Promise<void>;
  /** The command has ended. @param isComplete whether it has written everything */
  end(isComplete: boolean): Promise<void>;
}

/** @throws TargetRefused if there can be no such file */
export async function openOutputFile(path: string): Promise<OutputFile> {
  const found = await stat(path).catch(() => undefined);
  if (found?.isDirectory()) throw new TargetRefused(`${path} is a folder.`);
  const source = new PassThrough({ highWaterMark: 2 ** 20 }).on('error', () => undefined);
  /** Where it takes space; undefined for a device or a pipe. */
  let folder: string | undefined;
  let written!: Promise<void>;
  await new Promise<void>((begun, failed) => {
    const write = (file: string) => {
      begun();
      return pipeline(source, createWriteStream(file, { mode: 0o600 }));
    };
    const writeAside = (file: string) => {
      folder = dirname(file);
      return write(file);
    };
    written = found?.isFile() === false ? write(path) : writtenAside(path, writeAside);
    // After the file was opened, `write` and `end` throw it.
    written.catch((error: Error) => {
      source.destroy(error);
      failed(error);
    });
  });
  return {
    async write(text) {
      if (source.errored) await written;
      if (folder !== undefined) requireSpace(folder, Buffer.byteLength(text));
      if (!source.write(text)) await Promise.race([once(source, 'drain'), written]);
    },
    async end(isComplete) {
      if (isComplete) source.end();
      else source.destroy(new Error('The command has not written all of it.'));
      await (isComplete ? written : written.catch(() => undefined));
    },
  };
}
