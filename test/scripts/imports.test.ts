import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Scripts that no compiler checks: the examples and the bench. */

const IMPORT = /(?:import|const) \{([^}]*)\} (?:from|= await import\()\s*'([^']*\/dist\/[^']*)'/g;

const scripts = ['examples', 'bench'].flatMap((folder) => readdirSync(folder).map((name) => join(folder, name)));
const imports = scripts
  .filter((script) => script.endsWith('.mjs'))
  .flatMap((script) =>
    [...readFileSync(script, 'utf8').matchAll(IMPORT)].map((found): [script: string, module: string, names: string] => [
      script,
      join(dirname(script), found[2]!),
      found[1]!,
    ]),
  );

test.each(imports)('%s finds in %s what it imports', async (_, module, names) => {
  expect(existsSync(module)).toBe(true);
  const exported = Object.keys(await import(join(process.cwd(), module)));
  const wanted = names.split(',').flatMap((name) => name.trim().split(' as ')[0] || []);
  expect(exported).toEqual(expect.arrayContaining(wanted));
});
