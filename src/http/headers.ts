/**
 * Headers of every answer. JSON needs no more, as long as no browser takes it for another type. The documentation pages
 * also get the headers below.
 */
export const NO_SNIFF = { 'x-content-type-options': 'nosniff' };

const pageHeaders = (styles: string, more = '') => ({
  'content-security-policy':
    `default-src 'none'; script-src 'self'; style-src ${styles}; img-src 'self' data:; connect-src 'self'; ` +
    `base-uri 'none'; form-action 'none'; frame-ancestors 'none'${more}`,
  'referrer-policy': 'no-referrer',
});
/** The documentation page has its own scripts and styles, and inline styles. */
export const DOCS_HEADERS = pageHeaders("'self' 'unsafe-inline'");
/** The console has no inline scripts or styles, and writes no HTML. */
export const CONSOLE_HEADERS = pageHeaders("'self'", "; require-trusted-types-for 'script'; trusted-types 'none'");

/**
 * Any web page may call the service: browsers send no credential automatically (keys and tokens are headers that a
 * page must set), so an origin check would protect nothing. Set only for browsers' cross-origin requests, and for what
 * shared caches keep.
 */
export const CORS_HEADERS = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers':
    'Credence-Lag, Credence-Position, ETag, Idempotency-Replayed, Location, RateLimit, RateLimit-Limit, RateLimit-Policy, RateLimit-Remaining, RateLimit-Reset, Retry-After, X-Request-Id',
};
export const PREFLIGHT_HEADERS = {
  'access-control-allow-headers':
    'Authorization, Content-Type, Credence-Min-Position, Idempotency-Key, If-None-Match, Last-Event-ID, traceparent, tracestate, X-API-Key, X-Request-Id',
  'access-control-max-age': '7200',
};
