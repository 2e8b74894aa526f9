import { spawnSync } from 'node:child_process';

const has = (code: string) => spawnSync('python3', ['-c', code]).status === 0;

/** Why the verifier in Python cannot be run here; undefined if it can. */
export const noPython = !has('import sys; assert sys.version_info >= (3, 8)')
  ? 'there is no Python 3.8 on the PATH'
  : has('import cryptography')
    ? undefined
    : 'Python has no package "cryptography"';
if (noPython !== undefined) process.stderr.write(`skipped: the verifier in Python: ${noPython}\n`);
