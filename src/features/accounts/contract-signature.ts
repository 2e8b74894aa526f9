import { type JsonRpc, RpcFailure } from './json-rpc.js';

/** Selector of `isValidSignature(bytes32,bytes)`, and what it returns for a valid signature (ERC-1271). */
const IS_VALID_SIGNATURE = '1626ba7e';
/** As a word. A contract that returns the question begins with the selector, too, but goes on with the hash. */
const ACCEPTED = `0x${IS_VALID_SIGNATURE.padEnd(64, '0')}`;
/** The last 32 bytes of an ERC-6492 signature. */
const ERC_6492 = '6492'.repeat(16);
/** How nodes report that a call failed in the contract: reverted, out of gas, no valid code. */
const FAILED_CALL =
  /revert|\bVM (?:execution|exception)|EVM error|out ?of ?gas|gas uint64|(?:invalid|bad) ?(?:fe)?(?:opcode|instruction|jump)|stack ?(?:under|over|limit)|write protection|out of bounds/i;
const REVERTED = 3;

/**
 * Asks the contract wallet at an address whether it accepts a signature (ERC-1271). The signature may contain a call that
 * deploys the contract or prepares it (ERC-6492). If the contract does not exist yet, or does not accept the signature as
 * it is, the node simulates both calls.
 * @param hash 32 bytes as `0x` and hex digits @param signature `0x` and an even number of hex digits
 * @returns undefined if no contract answers, and the signature does not deploy one
 * @throws RpcFailure if the node does not answer, or not with bytes
 */
export async function acceptsSignature(
  node: JsonRpc,
  address: string,
  hash: string,
  signature: string,
): Promise<boolean | undefined> {
  const isWrapped = signature.toLowerCase().endsWith(ERC_6492);
  const code = bytesOf((await node.request('eth_getCode', [address, 'latest'])) ?? '0x');
  const isDeployed = code !== '0x' && code !== '0x0';
  const wrapped = isWrapped ? await unwrap(signature) : undefined;
  if (isWrapped && !wrapped) return false;
  const question = callOf(hash, wrapped?.signature ?? signature);
  const answer = isDeployed ? await accepts(node, { to: address, data: question }) : undefined;
  return answer || !wrapped ? answer : accepts(node, { data: prepareAndAsk(wrapped, address, question) });
}

/** @returns undefined if nobody has answered: the node that was asked knows no code there, or the code returns nothing */
async function accepts(node: JsonRpc, call: object): Promise<boolean | undefined> {
  try {
    const result = bytesOf(await node.request('eth_call', [call, 'latest']));
    return result === '0x' ? undefined : result.slice(0, ACCEPTED.length) === ACCEPTED;
  } catch (error) {
    const { reason, code, message } = error as RpcFailure;
    if (reason === 'refused' && (code === REVERTED || FAILED_CALL.test(message))) return false;
    throw error;
  }
}

/** @throws RpcFailure if the answer is not bytes */
function bytesOf(answer: unknown): string {
  if (typeof answer === 'string' && /^0x[0-9a-f]*$/i.test(answer)) return answer.toLowerCase();
  throw new RpcFailure('failed', `the node answered with ${JSON.stringify(answer)} instead of bytes`);
}

type Wrapped = Record<'factory' | 'preparation' | 'signature', string>;

/** The parts of an ERC-6492 signature; undefined if it cannot be decoded. */
async function unwrap(signature: string): Promise<Wrapped | undefined> {
  const { AbiCoder } = await import('ethers/abi'); // loaded when first needed
  try {
    const [factory, preparation, inner] = AbiCoder.defaultAbiCoder().decode(
      ['address', 'bytes', 'bytes'],
      signature.slice(0, -ERC_6492.length),
    ) as unknown as [string, string, string];
    return { factory, preparation, signature: inner };
  } catch {
    return undefined;
  }
}

/** The call data of `isValidSignature(hash, signature)`. */
function callOf(hash: string, signature: string): string {
  const bytes = signature.slice(2);
  const padded = bytes.padEnd(Math.ceil(bytes.length / 64) * 64, '0');
  return `0x${IS_VALID_SIGNATURE}${hash.slice(2)}${word(64)}${word(bytes.length / 2)}${padded}`;
}

/**
 * Code that a node runs as the creation of a contract: it calls the factory, then the wallet, and returns the wallet's
 * answer, or zero if the wallet reverts. The data of both calls follow the code.
 */
function prepareAndAsk({ factory, preparation }: Wrapped, wallet: string, question: string): string {
  const [first, second] = [preparation.slice(2), question.slice(2)];
  const [firstSize, secondSize] = [first.length / 2, second.length / 2];
  // Memory after the data of both calls, which is zero until the wallet answers.
  const answerAt = Math.ceil(Math.max(firstSize, secondSize) / 32) * 32;
  const code = (start: number) =>
    [
      push(firstSize) + push(start) + push(0) + CODECOPY,
      push(0) + push(0) + push(firstSize) + push(0) + push(0) + pushAddress(factory) + GAS + CALL + POP,
      push(secondSize) + push(start + firstSize) + push(0) + CODECOPY,
      push(32) + push(answerAt) + push(secondSize) + push(0) + pushAddress(wallet) + GAS + STATICCALL,
      push(answerAt) + MLOAD + MUL + push(0) + MSTORE,
      push(32) + push(0) + RETURN,
    ].join('');
  return `0x${code(code(0).length / 2)}${first}${second}`;
}

// Opcodes of the Ethereum virtual machine.
const [MUL, CODECOPY, POP, MLOAD, MSTORE, GAS] = ['02', '39', '50', '51', '52', '5a'] as const;
const [CALL, RETURN, STATICCALL] = ['f1', 'f3', 'fa'] as const;
const push = (value: number) => `63${value.toString(16).padStart(8, '0')}`; // PUSH4
const pushAddress = (address: string) => `73${address.slice(2).toLowerCase()}`; // PUSH20
const word = (value: number) => value.toString(16).padStart(64, '0');
