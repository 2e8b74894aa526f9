import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { PassThrough } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { TargetRefused, requireSpace, writtenAside } from '../stores/written-aside.js';

/** A file that gets its name once the command has written all of it. A device or a pipe is written directly. */
export class OutputFile {
  private readonly text = new PassThrough({ highWaterMark: 2 ** 20 });
  private readonly written: Promise<void>;
  /** Where it takes space; undefined for a device or a pipe. */
  private folder: string | undefined;
  private begin!: () => void;
  private readonly begun = new Promise<void>((resolve) => (this.begin = resolve));

  private constructor(private readonly path: string) {
    this.written = this.writeAll();
    // `write` and `end` throw it.
    this.written.catch((error: Error) => this.text.destroy(error));
    this.text.on('error', () => undefined);
  }

  /** @throws TargetRefused if there can be no such file */
  static async open(path: string): Promise<OutputFile> {
    const file = new OutputFile(path);
    await Promise.race([file.begun, file.written]);
    return file;
  }

  /** @throws TargetRefused if the file cannot be written, or its disk is full */
  async write(text: string): Promise<void> {
    if (this.text.errored) await this.written;
    if (this.folder !== undefined) requireSpace(this.folder, Buffer.byteLength(text));
    if (!this.text.write(text)) await Promise.race([once(this.text, 'drain'), this.written]);
  }

  /** The command has ended. @param isComplete whether it has written everything */
  async end(isComplete: boolean): Promise<void> {
    if (isComplete) this.text.end();
    else this.text.destroy(new Error('The command has not written all of it.'));
    await (isComplete ? this.written : this.written.catch(() => undefined));
  }

  private async writeAll(): Promise<void> {
    const found = await stat(this.path).catch(() => undefined);
    if (found?.isDirectory()) throw new TargetRefused(`${this.path} is a folder.`);
    const write = (file: string) => {
      this.begin();
      return pipeline(this.text, createWriteStream(file, { mode: 0o600 }));
    };
    if (found?.isFile() === false) return write(this.path);
    await writtenAside(this.path, (file) => {
      this.folder = dirname(file);
      return write(file);
    });
  }
}
