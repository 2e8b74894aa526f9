import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { read } from '../docs/markdown.js';

/** Exactly what examples/README.md shows; only the order within one step is the stream's. */
test('the lending bot relays in bulk, sees the changes, is told of a fall, and decides in a batch', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['examples/lending-bot.mjs']);
  const [, documented] = /demo:lending[^]*?```text\n([^]*?)```/.exec(read('examples/README.md'))!;
  const lines = (text: string) => text.trimEnd().split('\n').sort();
  expect(lines(stdout)).toEqual(lines(documented!));
});
