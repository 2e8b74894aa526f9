/** What a contract suite needs of an adapter: handles to one place that holds data, and its removal. */
export interface Harness<T> {
  /** Opens the place, empty at first. May be called again while another handle is open, as another process would. */
  open(): Promise<T>;
  destroy(): Promise<void>;
}

/** Polls until it is true; fails after two minutes. */
export async function eventually(condition: () => boolean | Promise<boolean>, what = 'the condition'): Promise<void> {
  const deadline = Date.now() + 120_000;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`${what} did not become true`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Looks until what it sees is so, and answers that; fails after two minutes, with what it saw last. */
export async function becomes<T>(look: () => Promise<T>, isSo: (seen: T) => boolean): Promise<T> {
  const deadline = Date.now() + 120_000;
  for (;;) {
    const seen = await look();
    if (isSo(seen)) return seen;
    if (Date.now() > deadline) throw new Error(`it stays ${JSON.stringify(seen)}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Writes how long something took to recover: the figures of docs/cluster.md. */
export async function recovery(what: string, recovered: Promise<unknown>): Promise<void> {
  const since = performance.now();
  await recovered;
  process.stderr.write(`recovery: ${what}: ${((performance.now() - since) / 1_000).toFixed(1)} s\n`);
}
