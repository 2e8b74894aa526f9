/**
 * Bundles the console into dist/console: scripts and one style sheet, also compressed, and the page that loads them.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
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

const load = createRequire(import.meta.url);
/**
 * Gives modules that import React one module of its exports. Otherwise each of some 200 modules would copy all of React's
 * exports for itself when the page starts.
 */
const react = {
  name: 'react',
  setup: ({ onResolve, onLoad }) => {
    onResolve({ filter: /^react(-dom)?($|\/)/ }, ({ path, kind }) =>
      kind === 'import-statement' ? { path, namespace: 'exports' } : undefined,
    );
    onLoad({ filter: /.*/, namespace: 'exports' }, ({ path }) => ({
      contents: `import all from ${JSON.stringify(load.resolve(path))};
        export default all; export const { ${Object.keys(load(path)).join(', ')} } = all;`,
      resolveDir: HERE,
    }));
  },
};

const { outputFiles, metafile } = await build({
  plugins: [direct, react],
  metafile: true,
  absWorkingDir: TARGET,
  banner: { css: variables },
  entryPoints: [join(HERE, 'src/start.ts')],
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
const built = (name) => Object.keys(metafile.outputs).find((path) => name.test(path));
/** Adds this script and those that it waits for to `found`. */
function needs(path, found = new Set()) {
  if (found.has(path)) return found;
  found.add(path);
  for (const { path: imported, kind } of metafile.outputs[path].imports) {
    if (kind === 'import-statement') needs(imported, found);
  }
  return found;
}
const start = built(/\/start-\w+\.js$/);
/** What every view needs: the scripts that the first one waits for, and those of the page around the view. */
const first = needs(built(/\/main-\w+\.js$/), needs(start));
/** A browser would ask for what a view needs only when it has read the view's own script. */
const together = (text) =>
  text.replace(/import\("\.\/([\w-]+\.js)"\)/g, (_import, name) => {
    const scripts = [...needs(`assets/${name}`)].filter((path) => !first.has(path) || path.endsWith(name));
    return `(${scripts.reverse().map((path) => `import("./${basename(path)}")`)})`;
  });

for (const { path, text } of outputFiles) {
  const contents = path.endsWith('.js') ? together(text) : text;
  writeFileSync(path, contents);
  writeFileSync(`${path}.gz`, gzipSync(contents, { level: 9 }));
}

const page = readFileSync(join(HERE, 'page.html'), 'utf8')
  .replace('{{style}}', `console/${built(/\.css$/)}`)
  .replace('{{script}}', `console/${start}`)
  .replace(
    '{{preloads}}',
    [...first]
      .filter((path) => path !== start)
      .map((path) => `<link rel="modulepreload" href="console/${path}" />`)
      .join('\n    '),
  );
writeFileSync(join(TARGET, 'index.html'), page);
