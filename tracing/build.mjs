/** Bundles sdk.mjs with the OpenTelemetry SDK into dist/tracing, where the service finds it (src/app/tracing.ts). */
import { join } from 'node:path';
import { build } from 'esbuild';

const ROOT = join(import.meta.dirname, '..');

await build({
  entryPoints: [join(ROOT, 'tracing/sdk.mjs')],
  outfile: join(ROOT, 'dist/tracing/sdk.mjs'),
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  // What is CommonJS inside calls for modules of Node.
  banner: { js: "import * as $node from 'node:module'; const require = $node.createRequire(import.meta.url);" },
  logLevel: 'warning',
});
