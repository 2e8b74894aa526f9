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
  br: (text: string | Buffer) => brotli(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } }),
  gzip: (text: string | Buffer) => gzipped(text, { level: 6 }),
};
const NAMES = Object.keys(ENCODINGS) as (keyof typeof ENCODINGS)[];

/**
 * Compresses a long text for a client that accepts it (RFC 9110, section 12.5.3). Files are sent as the build compressed
 * them, and streams of events are sent as they are. An ETag is weak, so it is the same for every encoding of the answer.
 */
export function compress(
  request: FastifyRequest,
  reply: FastifyReply,
  text: string | Buffer,
  done: (error: Error | null, payload?: string | Buffer) => void,
): void {
  const encoding = encodingFor(request, reply);
  if (encoding === null || reply.hasHeader('content-encoding')) return done(null, text);
  ENCODINGS[encoding](text).then(
    (bytes) => {
      reply.header('content-encoding', encoding).removeHeader('content-length');
      done(null, bytes);
    },
    (error: Error) => done(error),
  );
}

/** A long text that never changes, compressed once for each encoding. */
export class FixedText {
  private readonly compressed = new Map<string, Promise<Buffer>>();

  constructor(private readonly bytes: Buffer) {}

  /** What to send to the client; the headers that say how it is encoded are set. */
  async encodedFor(request: FastifyRequest, reply: FastifyReply): Promise<Buffer> {
    const encoding = encodingFor(request, reply);
    if (encoding === null) return this.bytes;
    const compressed = this.compressed.get(encoding) ?? ENCODINGS[encoding](this.bytes);
    this.compressed.set(encoding, compressed);
    reply.header('content-encoding', encoding);
    return compressed;
  }
}

/** The encoding that the client prefers, or null; answers with a choice say that it depends on the request. */
function encodingFor(request: FastifyRequest, reply: FastifyReply): (typeof NAMES)[number] | null {
  reply.header('vary', 'accept-encoding');
  const accepted = request.raw.headers['accept-encoding'];
  return accepted === undefined ? null : negotiate(String(accepted), NAMES);
}
