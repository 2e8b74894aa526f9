/** Of a value longer than this, making a view costs little beside reading it. */
const LONGEST = 2_048;

let buffer: Buffer | undefined;
let views: (Buffer | undefined)[] = [];

/**
 * The first bytes of a buffer. The library copies nearly every value into the same buffer, and making a view of it takes
 * longer than the checksum of a short value, so the views are kept by their length.
 */
export function firstBytes(bytes: Buffer, length: number): Buffer {
  if (length > LONGEST) return bytes.subarray(0, length);
  if (bytes !== buffer) {
    buffer = bytes;
    views = Array.from({ length: LONGEST + 1 });
  }
  return (views[length] ??= bytes.subarray(0, length));
}
