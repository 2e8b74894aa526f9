import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { read } from '../docs/markdown.js';

/** What docs/monitoring.md shows; the times differ, and one batch may project both events. */
test('one relay is traced from its request to its webhook, as documented', async () => {
  const { stdout, stderr } = await promisify(execFile)(process.execPath, ['examples/relay-trace.mjs']);
  expect(stderr).toBe('');
  const [, documented] = /demo:trace[^]*?```text\n([^]*?)```/.exec(read('docs/monitoring.md'))!;
  const spans = (text: string) => [
    ...new Set(
      text
        .trimEnd()
        .split('\n')
        .map((line) => line.slice(14)),
    ),
  ];
  expect(spans(stdout)).toEqual(spans(documented!));
  const times = stdout.match(/^ *\d+\.\d(?= )/gm)!.map(Number);
  expect(times).toHaveLength(stdout.trimEnd().split('\n').length - 1);
  expect(times.every((start) => start >= 0)).toBe(true);
});
