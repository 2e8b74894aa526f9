import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

/** What a page that uses all of the client loads. */

const BUDGET = 15_000;

test('the client and its verifiers need nothing of Node, and are smaller than 15 kB', async () => {
  const { outputFiles } = await build({
    stdin: {
      contents: ['client', 'eligibility', 'webhooks'].map((name) => `export * from './${name}.ts';`).join('\n'),
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
  expect(size).toBeLessThan(BUDGET);
  // Far below it would mean that the bundle is not the client.
  expect(size).toBeGreaterThan(BUDGET / 5);
});
