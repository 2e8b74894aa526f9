/**
 * The compiler of the contracts, and a node to run them on: npm's `solc` and `@foundry-rs/anvil`, installed by
 * `node scripts/install.mjs contracts`. Both work offline.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import solc from 'solc';

const ROOT = join(import.meta.dirname, '..');

/** Path of anvil's launcher, a script for Node. */
export const ANVIL = createRequire(import.meta.url).resolve('@foundry-rs/anvil/bin.mjs');

/**
 * The contracts of Solidity files, by name. Files and their imports are relative to the repository's root.
 * @param {...string} files
 * @returns {Record<string, { abi: import('viem').Abi, bytecode: `0x${string}` }>} the bytecode deploys the contract
 * @throws Error with the compiler's words, for warnings too
 */
export function compile(...files) {
  const read = (path) => readFileSync(join(ROOT, path), 'utf8');
  const input = {
    language: 'Solidity',
    sources: Object.fromEntries(files.map((file) => [file, { content: read(file) }])),
    settings: {
      optimizer: { enabled: true, runs: 200 },
      outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object'] } },
    },
  };
  const { errors, contracts } = JSON.parse(
    solc.compile(JSON.stringify(input), { import: (path) => ({ contents: read(path) }) }),
  );
  if (errors) throw new Error(errors.map(({ formattedMessage }) => formattedMessage).join('\n'));
  const named = files.flatMap((file) => Object.entries(contracts[file]));
  return Object.fromEntries(named.map(([name, { abi, evm }]) => [name, { abi, bytecode: `0x${evm.bytecode.object}` }]));
}
