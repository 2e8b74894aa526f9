import type { Action } from '../../src/features/relay/domain/relay.js';
import { Child } from '../embedded/processes/child.js';

const AT_ONCE = 2_000;

/**
 * Records so many actions in a data folder that nothing runs on: in a process of its own, since the same code takes
 * twice the time in the test runner.
 */
export async function fill(data: string, count: number, actionOf: (n: number) => Action): Promise<void> {
  const recorder = new Child(new URL('./processes/recorder.ts', import.meta.url), [data]);
  try {
    for (let from = 0; from < count; from += AT_ONCE) {
      recorder.send(Array.from({ length: Math.min(AT_ONCE, count - from) }, (_, i) => actionOf(from + i)));
      await recorder.printed(recorder.lines.length + 1);
    }
    recorder.send([]);
    const code = await recorder.exited;
    if (code !== 0) throw new Error(`the recorder ended with ${code}: ${recorder.stderr}`);
  } finally {
    await recorder.kill();
  }
}
