import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import negotiate from '@fastify/accept-negotiator';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** Characters below which compression saves less than it costs. */
export const MIN_COMPRESSED = 1_024;

const brotli = promisify(brotliCompress);
const gzipped = promisify(gzip);
/** In the order of preference. The qualities take about as long as each other, on a thread of the pool. */
const ENCODINGS = {
  br: (text: string) => brotli(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } }),
  gzip: (text: string) => gzipped(text, { level: 6 }),
};
const NAMES = Object.keys(ENCODINGS) as (keyof typeof ENCODINGS)[];

/**
 * Compresses a long text for a client that accepts it (RFC 9110, section 12.5.3). Files are sent as the build compressed
 * them, and streams of events are sent as they are. An ETag is weak, so it is the same for every encoding of the answer.
 */
export function compress(
  request: FastifyRequest,
  reply: FastifyReply,
  text: string,
  done: (error: Error | null, payload?: string | Buffer) => void,
): void {
  reply.header('vary', 'accept-encoding');
  const accepted = request.raw.headers['accept-encoding'];
  const encoding = accepted === undefined ? null : negotiate(String(accepted), NAMES);
  if (encoding === null || reply.hasHeader('content-encoding')) return done(null, text);
  ENCODINGS[encoding](text).then(
    (bytes) => {
      reply.header('content-encoding', encoding).removeHeader('content-length');
      done(null, bytes);
    },
    (error: Error) => done(error),
  );
}
