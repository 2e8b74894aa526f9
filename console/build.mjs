/**
 * Bundles the console into dist/console: a script for each page and one style sheet, also compressed, and the page that
 * loads them.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

const HERE = import.meta.dirname;
const TARGET = join(HERE, '../dist/console');

rmSync(TARGET, { recursive: true, force: true });
mkdirSync(join(TARGET, 'assets'), { recursive: true });

/** The variables of the theme, which the library would otherwise write into a style element of the page. */
const [theme] = (
  await build({
    stdin: { contents: "export * from '@mantine/core'; export { theme } from './src/theme.tsx';", resolveDir: HERE },
    bundle: true,
    write: false,
    format: 'esm',
    jsx: 'automatic',
    treeShaking: true,
    define: { 'process.env.NODE_ENV': '"production"' },
  })
).outputFiles;
const library = await import(`data:text/javascript;base64,${Buffer.from(theme.contents).toString('base64')}`);
const merged = library.mergeMantineTheme(library.DEFAULT_THEME, library.theme);
const variables = library.convertCssVariables(library.defaultCssVariablesResolver(merged));

const { outputFiles } = await build({
  banner: { css: variables },
  entryPoints: [join(HERE, 'src/main.tsx')],
  outdir: join(TARGET, 'assets'),
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  bundle: true,
  splitting: true,
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
  if (basename(path).startsWith('main-')) page = page.replace(`{{${kind}}}`, `console/assets/${basename(path)}`);
}
writeFileSync(join(TARGET, 'index.html'), page);
