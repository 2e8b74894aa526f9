import { createReadStream } from 'node:fs';

export const NEWLINE = 0x0a;
/** The byte order mark of UTF-8, with which some programs on Windows begin a file. */
const MARK = Buffer.from([0xef, 0xbb, 0xbf]);

export interface Line {
  /** From 1, empty lines counted. */
  number: number;
  /** Without the newline; null for a line that is too long, which is not kept. */
  bytes: Buffer | null;
}

/**
 * The lines of a file that are not blank, in groups (those that end in one chunk read), so that a file of any size is
 * read in constant memory.
 * @param most bytes of a line
 * @throws Error with the code ENOENT, EACCES … if it cannot be read
 */
export async function* readLines(file: string, most: number): AsyncGenerator<{ lines: Line[]; bytesRead: number }> {
  let number = 0;
  let bytesRead = 0;
  let rest: Buffer[] = [];
  let restLength = 0;

  const take = (end: Buffer): Line | undefined => {
    number++;
    const length = restLength + end.length;
    const bytes = length > most ? null : rest.length === 0 ? end : Buffer.concat([...rest, end]);
    rest = [];
    restLength = 0;
    return bytes === null || !isBlank(bytes) ? { number, bytes } : undefined;
  };

  for await (const chunk of createReadStream(file, { highWaterMark: 256 * 1024 }) as AsyncIterable<Buffer>) {
    const lines: Line[] = [];
    let start = bytesRead === 0 && chunk.subarray(0, MARK.length).equals(MARK) ? MARK.length : 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      const line = take(chunk.subarray(start, end));
      if (line) lines.push(line);
      start = end + 1;
    }
    if (start < chunk.length) {
      // Only the length of a line that is too long is needed.
      if (restLength <= most) rest.push(chunk.subarray(start));
      restLength += chunk.length - start;
    }
    bytesRead += chunk.length;
    yield { lines, bytesRead };
  }
  const last = restLength > 0 ? take(Buffer.alloc(0)) : undefined;
  if (last) yield { lines: [last], bytesRead };
}

export function isBlank(line: Buffer): boolean {
  return line.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d);
}
