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

const LIBRARY = join(HERE, 'node_modules/@mantine/core/esm');
const files = new Map(
  [...readFileSync(join(LIBRARY, 'index.mjs'), 'utf8').matchAll(/^import \{([^}]+)\} from "([^"]+)";/gm)].flatMap(
    ([, names, file]) => names.split(',').map((name) => [name.trim(), join(LIBRARY, file)]),
  ),
);
/** Imports each component from its own file: by way of the library's index, all would be in the first script. */
const direct = {
  name: 'direct',
  setup: ({ onLoad }) =>
    onLoad({ filter: /[/\\]src[/\\].*\.tsx$/ }, ({ path }) => ({
      loader: 'tsx',
      contents: readFileSync(path, 'utf8').replace(/import \{([^}]+)\} from '@mantine\/core';/, (_all, names) =>
        Array.from(
          names.matchAll(/\w+/g),
          ([name]) => `import { ${name} } from ${JSON.stringify(files.get(name))};`,
        ).join(' '),
      ),
    })),
};

const { outputFiles } = await build({
  plugins: [direct],
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
