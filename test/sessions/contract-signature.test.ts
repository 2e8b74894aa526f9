import { acceptsSignature } from '../../src/features/accounts/contract-signature.js';
import { type JsonRpc, RpcFailure } from '../../src/features/accounts/json-rpc.js';

/** What nodes answer when a contract is asked: only the contract's own failure is its refusal. */

const WALLET = `0x${'11'.repeat(20)}`;
const HASH = `0x${'22'.repeat(32)}`;
const MAGIC = `0x1626ba7e${'0'.repeat(56)}`;

/** A node at which there is code, and which answers a call like this. */
const ask = (answer: unknown, code: unknown = '0x6000') => {
  const request = async (method: string) => {
    const said = method === 'eth_getCode' ? code : answer;
    if (said instanceof Error) throw said;
    return said;
  };
  return acceptsSignature({ request } as unknown as JsonRpc, WALLET, HASH, '0x01');
};

test.each([
  [3, 'execution reverted'],
  [-32000, 'execution reverted: not the owner'],
  [-32000, 'out of gas'],
  [-32000, 'gas uint64 overflow'],
  [-32000, 'invalid opcode: opcode 0xfe not defined'],
  [-32000, 'invalid jump destination'],
  [-32000, 'stack underflow (0 <=> 1)'],
  [-32000, 'stack limit reached 1024 (1023)'],
  [-32000, 'write protection'],
  [-32000, 'return data out of bounds'],
  [-32015, 'VM execution error.'],
  [-32015, 'Bad instruction fe'],
  [-32603, 'EVM error OutOfGas'],
  [-32603, 'EVM error InvalidFEOpcode'],
  [-32603, 'VM Exception while processing transaction: invalid opcode'],
  [-32603, 'Error: Transaction reverted: function selector was not recognized'],
])('%d %s is the refusal of the contract', async (code, message) => {
  expect(await ask(new RpcFailure('refused', message, code, 200))).toBe(false);
});

test.each([
  [-32000, 'Invalid API key'],
  [-32600, 'Invalid request'],
  [-32602, 'invalid argument 0: json: cannot unmarshal hex string without 0x prefix'],
  [-32002, 'invalid project id'],
  [-32005, 'gas-based compute budget of this plan is used up'],
  [-32601, 'the method eth_call does not exist on this EVM endpoint'],
  [-32603, 'full stack trace was logged'],
  [-32000, 'missing trie node 00 (path ) state 0x00 is not available'],
  [-32000, 'execution aborted (timeout = 5s)'],
])('%d %s is no answer of the contract', async (code, message) => {
  const failure = new RpcFailure('refused', message, code, 200);
  await expect(ask(failure)).rejects.toBe(failure);
});

test.each([
  ['the word of ERC-1271', MAGIC, true],
  ['it in upper case', `0x${MAGIC.slice(2).toUpperCase()}`, true],
  ['it and more', `${MAGIC}00`, true],
  ['its first bytes only', '0x1626ba7e', false],
  ['the question', `0x1626ba7e${HASH.slice(2)}`, false],
  ['a word that says no', `0xffffffff${'0'.repeat(56)}`, false],
  ['no bytes', '0x', undefined],
])('the answer is %s', async (_, answer, outcome) => expect(await ask(answer)).toBe(outcome));

test.each([null, '', 'error', true, {}, [MAGIC]])('%j is no answer to a call', async (answer) => {
  await expect(ask(answer)).rejects.toThrow('instead of bytes');
});

test.each(['', 'error', 0, {}])('%j is no code', async (code) => {
  await expect(ask(MAGIC, code)).rejects.toThrow('instead of bytes');
});
