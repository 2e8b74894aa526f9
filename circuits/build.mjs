/**
 * Builds the circuits: `npm run circuits`. Compiles kyh.circom and kyc.circom, runs a setup for them and writes what
 * proving and verifying need into circuits/artifacts/. A minute or two.
 *
 * The setup is a TEST ceremony: one machine makes all contributions, so whoever runs it could keep the randomness and
 * forge proofs. It is right for tests and wrong for a deployment, which runs a ceremony of several parties over its own
 * circuits, at the depth it needs, and registers the verification key of that.
 */
import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import * as snarkjs from 'snarkjs';

const CIRCUITS = ['kyh', 'kyc'];
/** The largest circuit has fewer than 2^11 constraints, its public inputs included. */
const POWER = 11;

const root = join(import.meta.dirname, '..');
const artifacts = join(import.meta.dirname, 'artifacts');
const circom = createRequire(import.meta.url).resolve('circom2/cli.js');
const work = mkdtempSync(join(tmpdir(), 'credence-circuits-'));
const entropy = () => randomBytes(64).toString('hex');

try {
  mkdirSync(artifacts, { recursive: true });
  for (const name of CIRCUITS) {
    // From the root and with relative paths: the compiler looks nowhere else.
    const options = ['--r1cs', '--wasm', '--O2', '-l', 'circuits/node_modules', '-o', relative(root, work)];
    const args = [circom, `circuits/${name}.circom`, ...options];
    execFileSync(process.execPath, args, { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] });
  }

  const curve = await snarkjs.curves.getCurveFromName('bn128');
  const [begun, contributed, tau] = ['begun', 'contributed', 'tau'].map((name) => join(work, `${name}.ptau`));
  await snarkjs.powersOfTau.newAccumulator(curve, POWER, begun);
  await snarkjs.powersOfTau.contribute(begun, contributed, 'test', entropy());
  await snarkjs.powersOfTau.preparePhase2(contributed, tau);

  const sums = [];
  for (const name of CIRCUITS) {
    const [first, zkey] = [join(work, `${name}.first.zkey`), join(artifacts, `${name}.zkey`)];
    await snarkjs.zKey.newZKey(join(work, `${name}.r1cs`), tau, first);
    // Without this contribution delta would equal gamma, and anyone could forge proofs.
    await snarkjs.zKey.contribute(first, zkey, 'test', entropy());
    const key = await snarkjs.zKey.exportVerificationKey(zkey);
    writeFileSync(join(artifacts, `${name}.vkey.json`), `${JSON.stringify(key, null, 2)}\n`);
    copyFileSync(join(work, `${name}_js`, `${name}.wasm`), join(artifacts, `${name}.wasm`));
    for (const file of [`${name}.wasm`, `${name}.zkey`, `${name}.vkey.json`]) {
      const bytes = readFileSync(join(artifacts, file));
      sums.push(`${createHash('sha256').update(bytes).digest('hex')}  ${file}`);
      console.log(`${file}: ${bytes.length} bytes`);
    }
  }
  writeFileSync(join(artifacts, 'SHA256SUMS'), `${sums.join('\n')}\n`);
  await curve.terminate();
} finally {
  rmSync(work, { recursive: true, force: true });
}
