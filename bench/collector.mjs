/** A collector of traces that only takes what is sent, in a process of its own: prints its address. */
import { createServer } from 'node:http';

let bytes = 0;
const server = createServer((request, response) => {
  request.on('data', (chunk) => (bytes += chunk.length));
  // A client of protobuf takes an empty message for success.
  const type = request.headers['content-type'] ?? 'application/json';
  request.on('end', () =>
    response.writeHead(200, { 'content-type': type }).end(type === 'application/json' ? '{}' : ''),
  );
});
server.listen(0, '127.0.0.1', () => console.log(`collector http://127.0.0.1:${server.address().port}`));
process.once('SIGTERM', () => {
  console.error(`${bytes} bytes`);
  process.exit(0);
});
