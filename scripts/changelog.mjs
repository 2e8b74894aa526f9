/**
 * CHANGELOG.md: what a version changes. Run as a program, it is `npm run check:changelog`: it fails when the sources of
 * the service changed since the last tag and the changelog did not.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');

/** @returns {string | undefined} the text below the heading of a version, undefined if there is no heading or no text */
export function changes(version) {
  const sections = readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8').split(/^## /m);
  const section = sections.find((text) => text.startsWith(`[${version}]`));
  return section?.slice(section.indexOf('\n')).trim() || undefined;
}

/** @returns {{ isGood: boolean, output: string }} of a git that is asked about this repository */
export function git(...args) {
  const { status, stdout, stderr } = spawnSync('git', args, { cwd: ROOT, encoding: 'utf8' });
  return { isGood: status === 0, output: (status === 0 ? stdout : (stderr ?? 'there is no git')).trim() };
}

if (process.argv[1] === import.meta.filename) {
  const last = git('describe', '--tags', '--abbrev=0', '--match', 'v*');
  const isSame = (...paths) => git('diff', '--quiet', last.output, '--', ...paths).isGood;
  if (last.isGood && !isSame('src', 'projections') && isSame('CHANGELOG.md')) {
    console.error(
      `src/ or projections/ changed since ${last.output}, and CHANGELOG.md does not say what that changes.`,
    );
    process.exitCode = 1;
  }
}
