import { hashMessage } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { Anvil } from './anvil.js';
import { compile } from '../../contracts/tools.mjs';

/** The node and the compiler that other tests stand on. */

test('a compiled contract is deployed to a running node and judges a signature', async () => {
  const anvil = await Anvil.start(31338);
  const owner = privateKeyToAccount(`0x${'01'.repeat(32)}`);
  const { OwnedWallet } = compile('test/servers/wallets.sol');
  const wallet = await anvil.deploy(OwnedWallet!, [owner.address]);
  expect(await anvil.reader.getChainId()).toBe(31338);
  const judge = (signature: `0x${string}`) =>
    anvil.reader.readContract({
      address: wallet,
      abi: OwnedWallet!.abi,
      functionName: 'isValidSignature',
      args: [hashMessage('hello'), signature],
    });
  expect(await judge(await owner.signMessage({ message: 'hello' }))).toBe('0x1626ba7e');
  expect(await judge(await owner.signMessage({ message: 'hullo' }))).toBe('0xffffffff');
});

test('what does not compile is an error with the place', () => {
  expect(() => compile('test/servers/anvil.test.ts')).toThrow(/ParserError[^]*test\/servers\/anvil\.test\.ts:\d+:/);
});
