/** A collector that only receives traces, in a separate process; it prints its address. */
import { createServer } from 'node:http';

let bytes = 0;
const server = createServer((request, response) => {
  request.on('data', (chunk) => (bytes += chunk.length));
  // In protobuf, an empty message means success.
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
