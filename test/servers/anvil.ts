import { type ChildProcess, spawn } from 'node:child_process';
import {
  type Account,
  type Chain,
  type Hex,
  type PublicClient,
  type TestClient,
  type TransactionReceipt,
  type Transport,
  type WalletClient,
  createPublicClient,
  createTestClient,
  createWalletClient,
  defineChain,
  http,
} from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { ANVIL, type compile } from '../../contracts/tools.mjs';
import { becomes } from '../contracts/harness.js';

/** A real EVM node (anvil of npm's @foundry-rs/anvil) on a free port of loopback; offline, ready in a moment. */

export type Compiled = ReturnType<typeof compile>[string];

/** Whatever a test leaves running is ended with its file. */
const running = new Set<Anvil>();
afterAll(async () => {
  for (const anvil of running) await anvil.stop();
});

/** The first of the accounts anvil funds (its mnemonic is public): pays for deployments. */
export const FUNDED = privateKeyToAccount('0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80');

export class Anvil {
  private constructor(
    private readonly child: ChildProcess,
    readonly url: string,
    readonly chain: Chain,
  ) {}

  /**
   * Starts a node that mines a block per transaction.
   * @param options further command line options, as `--block-time 1`
   */
  static async start(chainId = 31337, options: readonly string[] = []): Promise<Anvil> {
    const child = spawn(ANVIL, ['--port', '0', '--chain-id', String(chainId), ...options], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const url = await new Promise<string>((settle, fail) => {
      let output = '';
      const read = (chunk: Buffer) => {
        output += chunk.toString();
        const address = /Listening on ([\d.]+:\d+)/.exec(output)?.[1];
        if (address) settle(`http://${address}`);
      };
      child.stdout!.on('data', read);
      child.stderr!.on('data', read);
      child.once('error', fail);
      child.once('exit', (code) => fail(new Error(`anvil ended with ${code}: ${output}`)));
    });
    const chain = defineChain({
      id: chainId,
      name: `anvil ${chainId}`,
      nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 },
      rpcUrls: { default: { http: [url] } },
    });
    const anvil = new Anvil(child, url, chain);
    running.add(anvil);
    return anvil;
  }

  /** Reads. */
  get reader(): PublicClient {
    return createPublicClient({ ...this.connection, cacheTime: 0 });
  }

  /** Commands of a test node: mine, reset, snapshot, setBalance … */
  get controls(): TestClient<'anvil'> {
    return createTestClient({ mode: 'anvil', ...this.connection });
  }

  /** Transactions of the funded account. */
  get writer(): WalletClient<Transport, Chain, Account> {
    return createWalletClient({ account: FUNDED, ...this.connection });
  }

  private get connection() {
    return { chain: this.chain, transport: http(this.url), pollingInterval: 20 };
  }

  /** Mines in portions: the node takes much longer for many blocks at once. */
  async mine(blocks: number): Promise<void> {
    for (let left = blocks; left > 0; left -= 50) await this.controls.mine({ blocks: Math.min(left, 50) });
  }

  /** Deploys a contract and answers its address once it is mined. */
  async deploy({ abi, bytecode }: Compiled, args: readonly unknown[] = []): Promise<Hex> {
    const hash = await this.writer.deployContract({ abi, bytecode, args });
    const { contractAddress } = await this.mined(hash);
    return contractAddress!;
  }

  /**
   * The receipt of a transaction once it is mined. The client's own wait asks again when the next block comes only: if
   * the node names a block before it has its receipts, that may be never.
   */
  async mined(hash: Hex): Promise<TransactionReceipt> {
    const receiptOf = () => this.reader.getTransactionReceipt({ hash }).catch(() => undefined);
    return (await becomes(receiptOf, (receipt) => receipt !== undefined))!;
  }

  async stop(): Promise<void> {
    running.delete(this);
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const exit = new Promise((settle) => this.child.once('exit', settle));
    this.child.kill('SIGTERM');
    await exit;
  }
}
