import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { getAddress, toEventSelector } from 'viem';
import { CONTRACTS, type ChainEvent, PROTOCOLS } from '../../src/features/ingestion/chain-events.js';
import { loadContracts } from '../../src/features/ingestion/contracts.js';
import { canonicalMetric } from '../../src/scoring/names.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';

test('the events have the topics that the deployed contracts emit', () => {
  const topics = (protocol: keyof typeof PROTOCOLS) =>
    Object.fromEntries(
      Object.keys(PROTOCOLS[protocol]).map((event) => [event.split('(')[0], toEventSelector(`event ${event}`)]),
    );
  expect(topics('erc20')).toEqual({ Transfer: '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef' });
  expect(topics('erc721')).toEqual(topics('erc20'));
  expect(topics('aave-v3')).toMatchObject({
    Repay: '0xa534c8dbe71f871f9f3530e97a74601fea17b426cae02e1c5aee42c96c784051',
    Borrow: '0xb3d084820fb1a9decffb176436bd02558d15fac9b0ddfed8c465bc7359d7dce0',
    LiquidationCall: '0xe413a321e8681d831f4dbccbca790d2952b56f977908e45be37335533e005286',
  });
  expect(topics('uniswap-v3-positions')).toEqual({
    IncreaseLiquidity: '0x3067048beee31b25b2f1681f88dac838c8bba36af25bfb2b7cf7473a5847e35f',
  });
  expect(topics('governor')).toEqual({
    VoteCast: '0xb8e138887d0aa13bab447e82de9d5c1777041ecd21ca36ba824ff1e6c07ddda4',
  });
  expect(topics('votes')).toEqual({
    DelegateChanged: '0x3134e8a2e6d97e929a7e54011ea5485d7d196dd5f0ba4d4ef95803e8e3fc257f',
  });
  expect(topics('safe')).toEqual({
    ExecutionSuccess: '0x442e715f626346e8c54381002da614f62bee8d27386535b2521ec8540898556e',
  });
  expect(topics('eas')).toEqual({
    Attested: '0x8bf46bf4cfd674fa735a3d63ec1c9ad4153f033c290341f3a588b75685141b35',
    Revoked: '0xf930a6e2523c9cc298691873087a740550b8fc85a0680830414c148ed927f615',
  });
});

test('every mapping is to a metric by its canonical name, every built-in address has its checksum', () => {
  const mappings = Object.values(PROTOCOLS).flatMap((events) => Object.values<ChainEvent>(events));
  for (const { metric } of mappings) expect(canonicalMetric(metric)).toBe(metric);
  for (const { address } of Object.values(CONTRACTS).flat()) expect(getAddress(address)).toBe(address);
});

describe('a file of contracts', () => {
  const address = '0x87870Bca3F3fD6335C3F4ce8392D69350B4fA4E2';
  async function load(content: string) {
    const folder = await temporaryFolder();
    const file = join(folder.path, 'contracts.json');
    writeFileSync(file, content);
    try {
      return loadContracts(file);
    } finally {
      await folder.remove();
    }
  }

  test('replaces the built-in list', async () => {
    const contracts = { 5: [{ address: address.toLowerCase(), protocol: 'eas', attesters: [address] }] };
    expect(await load(JSON.stringify(contracts))).toEqual(contracts);
    expect(loadContracts(undefined)).toBe(CONTRACTS);
  });

  test.each([
    ['{', /cannot be used/],
    ['[]', /chain ids as names/],
    ['{"mainnet":[]}', /"mainnet" is not a chain id/],
    ['{"1":{}}', /\/1 must be a list/],
    [`{"1":[{"address":"${address.replace('B', 'b')}","protocol":"aave-v3"}]}`, /\/1\/0 must have an address/],
    [`{"1":[{"address":"${address}","protocol":"aave"}]}`, /\/1\/0 must have one of the protocols aave-v3, /],
    [`{"1":[{"address":"${address}","protocol":"erc20","schemas":["0x1"]}]}`, /has schemas, which the protocol erc20/],
    [`{"1":[{"address":"${address}","protocol":"eas","attesters":["${address}"],"schemas":["0x1"]}]}`, /list of UIDs/],
    [`{"1":[{"address":"${address}","protocol":"eas","attesters":["${address}"],"schemas":[]}]}`, /list of UIDs/],
    [`{"1":[{"address":"${address}","protocol":"eas"}]}`, /must have attesters/],
    [`{"1":[{"address":"${address}","protocol":"erc20","attesters":["${address}"]}]}`, /does not use/],
    [`{"1":[{"address":"${address}","protocol":"erc20","since":1}]}`, /unknown property "since"/],
  ])('is refused in one sentence: %s', async (content, message) => {
    await expect(load(content)).rejects.toThrow(message);
  });
});
