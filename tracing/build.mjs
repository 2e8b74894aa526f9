/** Bundles sdk.mjs and export-thread.mjs with the OpenTelemetry SDK into dist/tracing, where the service finds it (src/app/tracing.ts). */
import { join } from 'node:path';
import { build } from 'esbuild';

const ROOT = join(import.meta.dirname, '..');

await build({
  entryPoints: ['sdk', 'export-thread'].map((name) => join(ROOT, `tracing/${name}.mjs`)),
  outdir: join(ROOT, 'dist/tracing'),
  outExtension: { '.js': '.mjs' },
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  // What is CommonJS inside calls for modules of Node.
  banner: { js: "import * as $node from 'node:module'; const require = $node.createRequire(import.meta.url);" },
  logLevel: 'warning',
});
