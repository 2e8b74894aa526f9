/**
 * Halves the time to start, and what a release installs: dependencies that come in hundreds of small files (Nest and what it
 * loads: 1,800) are bundled into dist/node_modules, with their licenses, where the built code finds them before those at
 * the root. All else stays as it is: a stack trace names the file of ours, and without dist/node_modules the same code runs,
 * after a longer start.
 */
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';

const ROOT = join(import.meta.dirname, '..');
const DIST = join(ROOT, 'dist');
const MODULES = join(DIST, 'node_modules');

/** What is bundled, with all that it loads: nothing that brings native code, and nothing that others load by itself. */
const BUNDLED = /^(@fastify\/|@nestjs\/|class-|cli-progress$|commander$|fastify$|prom-client$|yaml$)/;
/** What Nest would load if it were installed, what must be loaded before it, and clients that are the same for all. */
const LEFT_OUT = [
  '@fastify/multipart',
  '@fastify/view',
  '@nestjs/microservices',
  '@nestjs/platform-express',
  '@nestjs/websockets',
  'bullmq',
  'class-transformer/storage',
  'ioredis',
  'reflect-metadata',
];
const IMPORT = /\b(?:from|import\()\s*'((?:@[\w.-]+\/)?[a-z][\w./-]*)'/g;

/** @returns {Promise<string[]>} what the built code imports of BUNDLED, such as `@nestjs/common/constants.js` */
async function imported() {
  const found = new Set(['rxjs']); // Nest imports it.
  for (const file of await readdir(DIST, { recursive: true })) {
    if (!/\.m?js$/.test(file) || file.startsWith('node_modules')) continue;
    const code = await readFile(join(DIST, file), 'utf8');
    for (const [, name] of code.matchAll(IMPORT)) if (BUNDLED.test(name)) found.add(name);
  }
  return [...found];
}

/** @param {string} name @returns its package, its place in that (`.` or `./…`), and the file there that it is bundled into */
function place(name) {
  const [packageName] = /^(@[^/]+\/)?[^/]+/.exec(name);
  const path = `.${name.slice(packageName.length)}`;
  return { packageName, path, file: path === '.' ? './index' : path.replace(/\.js$/, '') };
}

/** Exports by name what the package does: also what CommonJS exports, which a bundle would only have as its default. */
async function reexport(name) {
  const names = Object.keys(await import(name)).filter((exported) => /^[\w$]+$/.test(exported));
  const exports = names.map((exported) =>
    exported === 'default'
      ? 'export default all.default;'
      : `const $${exported} = all.${exported}; export { $${exported} as ${exported} };`,
  );
  return `import * as all from '${name}';\n${exports.join('\n')}`;
}

const bundles = (await imported()).map((name) => ({ name, ...place(name) }));
await rm(MODULES, { recursive: true, force: true });
const { metafile } = await build({
  entryPoints: bundles.map(({ name, packageName, file }) => ({ in: `bundled:${name}`, out: join(packageName, file) })),
  outdir: MODULES,
  chunkNames: '.shared/[hash]',
  outExtension: { '.js': '.mjs' },
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  external: LEFT_OUT,
  metafile: true,
  // What is CommonJS inside may still call for modules of Node.
  banner: { js: "import * as $node from 'node:module'; const require = $node.createRequire(import.meta.url);" },
  logLevel: 'warning',
  plugins: [
    {
      name: 'entries',
      setup({ onResolve, onLoad }) {
        onResolve({ filter: /^bundled:/ }, ({ path }) => ({ path: path.slice('bundled:'.length), namespace: 'entry' }));
        onLoad({ filter: /.*/, namespace: 'entry' }, async ({ path }) => ({
          contents: await reexport(path),
          resolveDir: ROOT,
        }));
      },
    },
  ],
});

const packages = new Map();
for (const { packageName, path, file } of bundles) {
  packages.set(packageName, { ...packages.get(packageName), [path]: `${file}.mjs` });
}
for (const [name, exports] of packages) {
  await mkdir(join(MODULES, name), { recursive: true });
  await writeFile(join(MODULES, name, 'package.json'), JSON.stringify({ name, exports }, null, 2));
}

const folders = Object.keys(metafile.inputs).flatMap((path) => path.match(/^.*node_modules\/(?:@[^/]+\/)?[^/]+/) ?? []);
const licenses = [...new Set(folders)].sort().map(async (folder) => {
  const { name, version, license } = JSON.parse(await readFile(join(ROOT, folder, 'package.json'), 'utf8'));
  const files = (await readdir(join(ROOT, folder))).filter((file) => /^(licen[cs]e|copying|notice)/i.test(file));
  const texts = await Promise.all(files.map((file) => readFile(join(ROOT, folder, file), 'utf8')));
  return [`${name} ${version} (${license})`, ...texts].join('\n\n');
});
await writeFile(join(MODULES, 'LICENSES.txt'), (await Promise.all(licenses)).join(`\n\n${'-'.repeat(80)}\n\n`));
