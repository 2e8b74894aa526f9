import { text } from 'node:stream/consumers';
import autocannon from 'autocannon';

/** Sends requests as fast as they are answered, until it is ended. Reads `{options, keys}` of autocannon from its input. */

const { options, keys } = JSON.parse(await text(process.stdin));
let next = 0;
const setupClient = (client) => {
  const { [next++ % keys.length]: key } = keys;
  client.setHeaders({ 'content-type': 'application/json', ...(key !== '' && { 'x-api-key': key }) });
};
autocannon({ ...options, duration: 3600, setupClient });
