import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createTestClient, defineChain, http, publicActions, walletActions } from 'viem';
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts';
import { ANVIL, compile } from '../contracts/tools.mjs';
import { ROOT, inTemporaryFolder, median, startServer } from './measure.mjs';

/** A wallet's history, read from a real node (anvil) and recorded as actions. */

const CHAIN_ID = 31337;
const TRANSACTIONS = 40;
const LOGS_EACH = 500;
/** Blocks until one is final there. */
const FINALITY = 64;

/**
 * Logs per second, from the request to the job's end: read, and each recorded as an action, durably. A new service and
 * a new wallet each round.
 */
export async function ingestionRate(rounds) {
  const node = await startNode();
  try {
    const rates = [];
    for (let round = 0; round < rounds; round++) rates.push(await inTemporaryFolder((data) => oneRound(node, data)));
    return { rate: median(rates), logs: TRANSACTIONS * LOGS_EACH };
  } finally {
    node.child.kill();
  }
}

async function oneRound({ url, chain, pool, abi }, data) {
  const account = privateKeyToAccount(generatePrivateKey());
  // Anvil unlocks its first account.
  const [from] = await chain.getAddresses();
  const repay = async (transactions) => {
    for (let i = 0; i < transactions; i++) {
      const args = [account.address, BigInt(LOGS_EACH)];
      const hash = await chain.writeContract({ account: from, address: pool, abi, functionName: 'repay', args });
      await chain.waitForTransactionReceipt({ hash });
    }
    await chain.mine({ blocks: FINALITY });
  };
  const contracts = join(data, 'contracts.json');
  writeFileSync(contracts, JSON.stringify({ [CHAIN_ID]: [{ address: pool, protocol: 'aave-v3' }] }));
  const server = await startServer(join(ROOT, 'dist/src/main.js'), {
    CREDENCE_DATA: join(data, 'service'),
    [`CREDENCE_RPC_${CHAIN_ID}`]: url,
    CREDENCE_CHAIN_CONTRACTS: contracts,
  });
  try {
    const call = async (method, path, body, session) => {
      const headers = {
        ...(body && { 'content-type': 'application/json' }),
        ...(session && { authorization: `Bearer ${session}` }),
      };
      const answer = await fetch(server.url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
      const json = await answer.json();
      if (!answer.ok) throw new Error(`${path}: ${answer.status} ${JSON.stringify(json)}`);
      return json;
    };
    const wish = { address: account.address, chain_id: CHAIN_ID, purpose: 'claim' };
    const { message } = await call('POST', '/v1/tris/auth/siwe/start', wish);
    const signature = await account.signMessage({ message });
    const { access_token } = await call('POST', '/v1/tris/auth/siwe/verify', { message, signature });
    const ingest = async () => {
      const asked = { wallet: account.address, chain_id: CHAIN_ID };
      const { job_id } = await call('POST', '/v1/wallets/ingest', asked, access_token);
      for (;;) {
        const { status, result } = await call('GET', `/v1/wallets/ingest/${job_id}`, undefined, access_token);
        if (status === 'completed') return result.recorded;
        if (status === 'failed') throw new Error(`the ingestion failed: ${JSON.stringify(result)}`);
        await sleep(10);
      }
    };
    await repay(2);
    await ingest(); // warms up
    await repay(TRANSACTIONS);
    const started = performance.now();
    const recorded = await ingest();
    if (recorded !== TRANSACTIONS * LOGS_EACH) throw new Error(`${recorded} logs were recorded`);
    return (1000 * recorded) / (performance.now() - started);
  } finally {
    await server.stop();
  }
}

/** A node with the contract of the tests that emits what Aave's pool emits. */
async function startNode() {
  const child = spawn(ANVIL, ['--port', '0', '--chain-id', String(CHAIN_ID), '--gas-limit', '100000000'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const url = await new Promise((found, failed) => {
    child.stdout.on('data', (chunk) => {
      const address = /Listening on ([\d.]+:\d+)/.exec(chunk)?.[1];
      if (address) found(`http://${address}`);
    });
    child.once('exit', (code) => failed(new Error(`anvil ended with ${code}`)));
  });
  const chain = createTestClient({
    mode: 'anvil',
    chain: defineChain({
      id: CHAIN_ID,
      name: 'anvil',
      nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 },
      rpcUrls: { default: { http: [url] } },
    }),
    transport: http(url),
    pollingInterval: 20,
  })
    .extend(publicActions)
    .extend(walletActions);
  const { abi, bytecode } = compile('test/ingestion/history.sol').History;
  const [account] = await chain.getAddresses();
  const hash = await chain.deployContract({ account, abi, bytecode });
  const { contractAddress: pool } = await chain.waitForTransactionReceipt({ hash });
  return { child, url, chain, pool, abi };
}
