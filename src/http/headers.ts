/**
 * Of every answer: JSON that is never taken for something else needs no further protection. What is rendered, the
 * documentation, has the headers below.
 */
export const NO_SNIFF = { 'x-content-type-options': 'nosniff' };

/** The documentation page brings its own scripts and styles, and inline styles. */
export const DOCS_HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
};

/**
 * Any web page may call the service: no credential travels by itself (keys and tokens are headers a page must have),
 * so there is nothing an origin check would protect. Set only when a browser asks.
 */
export const CORS_HEADERS = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers':
    'Credence-Position, ETag, Location, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Retry-After, X-Request-Id',
};
export const PREFLIGHT_HEADERS = {
  'access-control-allow-headers':
    'Authorization, Content-Type, Credence-Min-Position, Idempotency-Key, If-None-Match, X-API-Key, X-Request-Id',
  'access-control-max-age': '7200',
};
