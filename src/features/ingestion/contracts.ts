import { readFileSync } from 'node:fs';
import { isAddress } from 'ethers/address';
import { ConfigError } from '../../kernel/config.js';
import { CONTRACTS, type ChainEvent, type Contract, PROTOCOLS, PROTOCOL_NAMES, type Protocol } from './chain-events.js';
import { isObject, parseJsonText } from '../../kernel/json.js';

export type ContractsByChain = Readonly<Record<string, readonly Contract[]>>;

/**
 * The contracts whose events count, by chain id.
 * @param file JSON `{"<chain id>": [{"address", "protocol", "attesters"?, "schemas"?}]}`, which replaces the built-in list
 * @throws ConfigError that names the fault and its place
 */
export function loadContracts(file: string | undefined): ContractsByChain {
  if (file === undefined) return CONTRACTS;
  const wrong = (what: string) => new ConfigError(`The contracts in ${file} cannot be used: ${what}.`);
  let chains: unknown;
  try {
    chains = parseJsonText(readFileSync(file, 'utf8'));
  } catch (error) {
    throw wrong((error as Error).message);
  }
  if (!isObject(chains)) throw wrong('it must contain an object with chain ids as names');
  for (const [chainId, contracts] of Object.entries(chains)) {
    if (!/^[1-9]\d{0,14}$/.test(chainId)) throw wrong(`"${chainId}" is not a chain id`);
    if (!Array.isArray(contracts)) throw wrong(`/${chainId} must be a list of contracts`);
    contracts.forEach((contract, i) => {
      const problem = problemOf(contract);
      if (problem) throw wrong(`/${chainId}/${i} ${problem}`);
    });
  }
  return chains as ContractsByChain;
}

function problemOf(contract: unknown): string | undefined {
  if (!isObject(contract)) return 'must be an object with address and protocol';
  const { address, protocol, attesters, schemas, ...others } = contract;
  if (!isContractAddress(address)) return 'must have an address with a correct EIP-55 checksum, or in lower case';
  if (!PROTOCOL_NAMES.includes(protocol as Protocol))
    return `must have one of the protocols ${PROTOCOL_NAMES.join(', ')}`;
  const attested = Object.values<ChainEvent>(PROTOCOLS[protocol as Protocol]).some(({ attester }) => attester);
  if (attested && !(Array.isArray(attesters) && attesters.length > 0 && attesters.every(isContractAddress))) {
    return `must have attesters, a list of addresses: for ${String(protocol)} only their attestations count`;
  }
  if (!attested && attesters !== undefined) return `has attesters, which the protocol ${String(protocol)} does not use`;
  if (!attested && schemas !== undefined) return `has schemas, which the protocol ${String(protocol)} does not use`;
  if (schemas !== undefined && !(Array.isArray(schemas) && schemas.length > 0 && schemas.every(isSchemaUid))) {
    return 'must have as schemas a list of UIDs: 0x and 64 hexadecimal digits';
  }
  const [unknown] = Object.keys(others);
  return unknown === undefined ? undefined : `has an unknown property ${JSON.stringify(unknown)}`;
}

// The library also accepts addresses without 0x.
const isContractAddress = (value: unknown): boolean =>
  typeof value === 'string' && value.startsWith('0x') && isAddress(value);

const isSchemaUid = (value: unknown): boolean => typeof value === 'string' && /^0x[0-9a-f]{64}$/i.test(value);
