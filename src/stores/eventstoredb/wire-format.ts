import type { Reader } from 'protobufjs/minimal.js';

/** Reading of messages in the wire format of Protocol Buffers, field by field. */

/** The place where the message ends whose length comes next. */
export function endOf(reader: Reader): number {
  return reader.uint32() + reader.pos;
}

/** The number of a field. */
export function field(tag: number): number {
  return tag >>> 3;
}

export function skip(reader: Reader, tag: number): void {
  reader.skipType(tag & 7);
}

/** Exact up to 2^53. */
export function uint64(reader: Reader): number {
  // The declarations of the library do not know the methods of its Long.
  return (reader.uint64() as unknown as { toNumber(): number }).toNumber();
}

/** The 16 hexadecimal digits of an integer of 64 bits. */
export function hexOfInt64(reader: Reader): string {
  const { high, low } = reader.int64() as { high: number; low: number };
  return hexOf(high) + hexOf(low);
}

function hexOf(bits: number): string {
  return (bits >>> 0).toString(16).padStart(8, '0');
}
