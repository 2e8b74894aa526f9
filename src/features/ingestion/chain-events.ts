import type { Criticality } from '../../scoring/model.js';

/**
 * Which events of which contracts become actions of a wallet's identity, and with which metric and criticality. Only
 * listed contracts count, since anyone can deploy a contract that emits any event.
 */

/** What an event counts as, and for whom. */
export interface ChainEvent {
  /** The wallet: an indexed argument (1 to 3), the contract itself, or the owner of the token in argument 1. */
  wallet: 1 | 2 | 3 | 'contract' | 'token-owner';
  metric: string;
  criticality: Criticality;
  /** The indexed argument that must be one of the contract's `attesters`. */
  attester?: 1 | 2 | 3;
  /** The indexed argument that must be one of the contract's `schemas`, if it has any. */
  schema?: 1 | 2 | 3;
  /** Of an attestation, whose only argument that is not indexed is its UID. `revoked`: it withdraws the action. */
  attestation?: 'made' | 'revoked';
}

/** Events of Aave that count alike in both versions. */
const PROVISION: ChainEvent = { wallet: 2, metric: 'financial_liquidity_provision', criticality: 'Low' };
const CONSISTENCY: ChainEvent = { wallet: 2, metric: 'financial_txn_consistency', criticality: 'Minimal' };
const REPAYMENT: ChainEvent = { wallet: 2, metric: 'financial_loan_repayment_consistency', criticality: 'High' };
/** Identical in Aave v2 and v3. */
const LIQUIDATION = {
  'LiquidationCall(address indexed collateralAsset, address indexed debtAsset, address indexed user, uint256 debtToCover, uint256 liquidatedCollateralAmount, address liquidator, bool receiveAToken)':
    { wallet: 3, metric: 'financial_liquidation_flags', criticality: 'Critical' },
} as const;

const TRANSFER: ChainEvent = { wallet: 1, metric: 'financial_txn_consistency', criticality: 'Minimal' };
const ATTESTATION: ChainEvent = {
  wallet: 1,
  metric: 'social_verified_identity_linked',
  criticality: 'Low',
  attester: 2,
  schema: 3,
};

/** By protocol: events as contracts declare them. The hash of an event's signature is the first topic of its logs. */
export const PROTOCOLS = {
  'aave-v3': {
    'Supply(address indexed reserve, address user, address indexed onBehalfOf, uint256 amount, uint16 indexed referralCode)':
      PROVISION,
    'Borrow(address indexed reserve, address user, address indexed onBehalfOf, uint256 amount, uint8 interestRateMode, uint256 borrowRate, uint16 indexed referralCode)':
      CONSISTENCY,
    'Repay(address indexed reserve, address indexed user, address indexed repayer, uint256 amount, bool useATokens)':
      REPAYMENT,
    ...LIQUIDATION,
  },
  'aave-v2': {
    'Deposit(address indexed reserve, address user, address indexed onBehalfOf, uint256 amount, uint16 indexed referral)':
      PROVISION,
    'Withdraw(address indexed reserve, address indexed user, address indexed to, uint256 amount)': CONSISTENCY,
    'Borrow(address indexed reserve, address user, address indexed onBehalfOf, uint256 amount, uint256 borrowRateMode, uint256 borrowRate, uint16 indexed referral)':
      CONSISTENCY,
    'Repay(address indexed reserve, address indexed user, address indexed repayer, uint256 amount)': REPAYMENT,
    ...LIQUIDATION,
  },
  'uniswap-v3-positions': {
    'IncreaseLiquidity(uint256 indexed tokenId, uint128 liquidity, uint256 amount0, uint256 amount1)': {
      wallet: 'token-owner',
      metric: 'financial_liquidity_provision_duration',
      criticality: 'Moderate',
    },
  },
  erc20: { 'Transfer(address indexed from, address indexed to, uint256 value)': TRANSFER },
  erc721: { 'Transfer(address indexed from, address indexed to, uint256 indexed tokenId)': TRANSFER },
  governor: {
    'VoteCast(address indexed voter, uint256 proposalId, uint8 support, uint256 weight, string reason)': {
      wallet: 1,
      metric: 'behavioral_vote_participation',
      criticality: 'Moderate',
    },
  },
  votes: {
    'DelegateChanged(address indexed delegator, address indexed fromDelegate, address indexed toDelegate)': {
      wallet: 1,
      metric: 'behavioral_votes_delegated',
      criticality: 'Low',
    },
  },
  safe: {
    'ExecutionSuccess(bytes32 txHash, uint256 payment)': {
      wallet: 'contract',
      metric: 'security_multisig_participation',
      criticality: 'Moderate',
    },
  },
  eas: {
    'Attested(address indexed recipient, address indexed attester, bytes32 uid, bytes32 indexed schemaUID)': {
      ...ATTESTATION,
      attestation: 'made',
    },
    'Revoked(address indexed recipient, address indexed attester, bytes32 uid, bytes32 indexed schemaUID)': {
      ...ATTESTATION,
      attestation: 'revoked',
    },
  },
} satisfies Record<string, Record<string, ChainEvent>>;

export type Protocol = keyof typeof PROTOCOLS;
export const PROTOCOL_NAMES = Object.keys(PROTOCOLS) as Protocol[];

export interface Contract {
  /** EIP-55. */
  address: string;
  protocol: Protocol;
  /** Required for `eas`, not allowed for others: the attesters whose attestations count. */
  attesters?: readonly string[];
  /** For `eas`: the UIDs of the schemas that count. Default: all, also one that says the contrary of another. */
  schemas?: readonly string[];
}

/**
 * The built-in contracts by chain id; a file named by CREDENCE_CHAIN_CONTRACTS replaces them. Operators list Safes and
 * attesters there. Without the pool of Aave v2: `credence import aave` imports its history, which must not count twice.
 */
export const CONTRACTS: Readonly<Record<string, readonly Contract[]>> = {
  // Ethereum
  1: [
    { address: '0x87870Bca3F3fD6335C3F4ce8392D69350B4fA4E2', protocol: 'aave-v3' },
    { address: '0xC36442b4a4522E871399CD717aBDD847Ab11FE88', protocol: 'uniswap-v3-positions' },
    { address: '0x408ED6354d4973f66138C91495F2f2FCbd8724C3', protocol: 'governor' },
    { address: '0x1f9840a85d5aF5bf1D1762F925BDADdC4201F984', protocol: 'votes' },
    { address: '0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48', protocol: 'erc20' },
  ],
  // OP Mainnet
  10: [
    { address: '0x794a61358D6845594F94dc1DB02A252b5b4814aD', protocol: 'aave-v3' },
    { address: '0xC36442b4a4522E871399CD717aBDD847Ab11FE88', protocol: 'uniswap-v3-positions' },
  ],
  // Polygon
  137: [
    { address: '0x794a61358D6845594F94dc1DB02A252b5b4814aD', protocol: 'aave-v3' },
    { address: '0xC36442b4a4522E871399CD717aBDD847Ab11FE88', protocol: 'uniswap-v3-positions' },
    { address: '0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359', protocol: 'erc20' },
  ],
  // Base
  8453: [{ address: '0xA238Dd80C259a72e81d7e4664a9801593F98d1c5', protocol: 'aave-v3' }],
  // Arbitrum One
  42161: [
    { address: '0x794a61358D6845594F94dc1DB02A252b5b4814aD', protocol: 'aave-v3' },
    { address: '0xC36442b4a4522E871399CD717aBDD847Ab11FE88', protocol: 'uniswap-v3-positions' },
  ],
};

/** Id of the platform that relays the events of a chain (CAIP-2). */
export function chainPlatform(chainId: number): string {
  return `eip155:${chainId}`;
}
