import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

/** What a page loads that uses all of the client, or only verifies the log. */

test.each([
  ['the client and its verifiers of messages and tokens', ['client', 'eligibility', 'webhooks'], 15_000],
  ['the verifier of the log', ['audit'], 7_000],
])('%s: need nothing of Node, and have a bounded size', async (_, modules, budget) => {
  const { outputFiles } = await build({
    stdin: {
      contents: modules.map((name) => `export * from './${name}.ts';`).join('\n'),
      resolveDir: 'clients/typescript/src',
    },
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    // An import of Node could not be resolved here.
    platform: 'browser',
    target: ['chrome120', 'firefox120', 'safari17'],
  });
  const size = gzipSync(outputFiles[0]!.contents, { level: 9 }).length;
  expect(size).toBeLessThan(budget);
  // Far below it would mean that the bundle is not this.
  expect(size).toBeGreaterThan(budget / 5);
});
