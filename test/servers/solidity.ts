import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import solc from 'solc';
import type { Abi, Hex } from 'viem';

/** Compiles Solidity with npm's `solc`, offline. */

export interface Compiled {
  abi: Abi;
  /** Of the deployment. */
  bytecode: Hex;
}

interface Output {
  errors?: { severity: string; formattedMessage: string }[];
  contracts: Record<string, Record<string, { abi: Abi; evm: { bytecode: { object: string } } }>>;
}

/**
 * The contracts of a file, by name. Imports are read relative to the repository's root.
 * @throws Error with the compiler's words, for warnings too
 */
export function compile(file: string): Record<string, Compiled> {
  const input = {
    language: 'Solidity',
    sources: { [file]: { content: readFileSync(resolve(file), 'utf8') } },
    settings: {
      optimizer: { enabled: true, runs: 200 },
      outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object'] } },
    },
  };
  const read = (path: string) => ({ contents: readFileSync(resolve(path), 'utf8') });
  const output = JSON.parse(solc.compile(JSON.stringify(input), { import: read })) as Output;
  if (output.errors) throw new Error(output.errors.map(({ formattedMessage }) => formattedMessage).join('\n'));
  return Object.fromEntries(
    Object.entries(output.contracts[file]!).map(([name, { abi, evm }]) => [
      name,
      { abi, bytecode: `0x${evm.bytecode.object}` },
    ]),
  );
}
