/** What talks to a chain from outside of this folder, which has packages of its own. */
export { ContractFunctionRevertedError, createTestClient, defineChain, http, publicActions, walletActions } from 'viem';
export { generatePrivateKey, privateKeyToAccount } from 'viem/accounts';
