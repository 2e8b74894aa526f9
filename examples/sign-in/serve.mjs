// `npm run demo:page [service] [port]`: serves the sign-in page, and the service under the same origin. So what a wallet signs is
// for the origin it sees, and the page needs nothing of any other.
import { readFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { pathToFileURL } from 'node:url';

const HEADERS = {
  'cache-control': 'no-cache',
  // A page cannot say these of itself.
  'content-security-policy': "frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
};
const FILES = {
  '/': ['index.html', 'text/html; charset=utf-8'],
  '/page.css': ['page.css', 'text/css; charset=utf-8'],
  '/page.js': ['page.js', 'text/javascript; charset=utf-8'],
  '/session.js': ['session.js', 'text/javascript; charset=utf-8'],
};

/**
 * The server of the page, yet to listen.
 * @param service answers where the service is, http only
 */
export function pageServer(service) {
  return createServer((incoming, outgoing) => {
    const [path] = incoming.url.split('?');
    const file = Object.hasOwn(FILES, path) && FILES[path];
    if (file && ['GET', 'HEAD'].includes(incoming.method)) {
      outgoing.writeHead(200, { ...HEADERS, 'content-type': file[1] });
      outgoing.end(readFileSync(new URL(file[0], import.meta.url)));
    } else if (/^\/(?:v1|api)\//.test(path)) forward(incoming, outgoing, service());
    else refuse(outgoing, 404, 'not_found', 'There is nothing at this address.');
  });
}

/** Passes a request on as it is, and the answer back. */
function forward(incoming, outgoing, service) {
  const { hostname, port } = new URL(service);
  const { url, method } = incoming;
  const headers = { ...incoming.headers };
  delete headers.host;
  delete headers.connection;
  // The path as it came: whatever is done to it is for the service to do.
  const passed = request({ hostname, port, path: url, method, headers }, (answer) => {
    outgoing.writeHead(answer.statusCode, answer.headers);
    answer.pipe(outgoing);
  });
  passed.on('error', () => {
    if (outgoing.headersSent) outgoing.destroy();
    else refuse(outgoing, 502, 'service_unreachable', `The service at ${service} cannot be reached.`);
  });
  outgoing.on('close', () => passed.destroy());
  incoming.pipe(passed);
}

function refuse(outgoing, status, code, detail) {
  outgoing.writeHead(status, { 'content-type': 'application/problem+json' });
  outgoing.end(JSON.stringify({ status, code, detail }));
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [service = 'http://127.0.0.1:3000', port = '8080'] = process.argv.slice(2);
  const page = `http://127.0.0.1:${port}`;
  const fail = (sentence) => {
    process.stderr.write(`${sentence}\n`);
    process.exit(1);
  };
  for (const address of [service, page]) {
    if (!URL.canParse(address) || new URL(address).protocol !== 'http:') fail(`"${address}" is no http address.`);
  }
  pageServer(() => service)
    .on('error', (error) => fail(`The page cannot be served at ${page}: ${error.message}.`))
    .listen({ host: '127.0.0.1', port }, () => {
      process.stdout.write(`The page is at ${page}, before the service at ${service}.\n`);
      process.stdout.write(`Wallets sign in if the service says so too: CREDENCE_PUBLIC_URL=${page} npm start\n`);
    });
}
