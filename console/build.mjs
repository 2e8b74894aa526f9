/** Bundles the console into dist/console: one script and one style sheet, also compressed, and the page that loads them. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

const HERE = import.meta.dirname;
const TARGET = join(HERE, '../dist/console');

rmSync(TARGET, { recursive: true, force: true });
mkdirSync(join(TARGET, 'assets'), { recursive: true });
const { outputFiles } = await build({
  entryPoints: [join(HERE, 'src/main.tsx')],
  outdir: join(TARGET, 'assets'),
  entryNames: '[name]-[hash]',
  bundle: true,
  minify: true,
  write: false,
  format: 'esm',
  jsx: 'automatic',
  target: ['chrome123', 'firefox120', 'safari17.5'],
  define: { 'process.env.NODE_ENV': '"production"' },
  legalComments: 'eof',
  logLevel: 'warning',
});
let page = readFileSync(join(HERE, 'page.html'), 'utf8');
for (const { path, contents } of outputFiles) {
  const kind = path.endsWith('.css') ? 'style' : 'script';
  writeFileSync(path, contents);
  writeFileSync(`${path}.gz`, gzipSync(contents, { level: 9 }));
  page = page.replace(`{{${kind}}}`, `console/assets/${basename(path)}`);
}
writeFileSync(join(TARGET, 'index.html'), page);
