/**
 * What `npm start -- --example` and `credence serve --example` record in an empty folder: members of a marketplace with
 * their real ratings, and a lender made up beside them. Everything is a body of the HTTP interface.
 */
import { readFileSync } from 'node:fs';
import { parseRatings, toAction } from './otc.mjs';

const DAY_MS = 86_400_000;
const member = (number) => `tris:otc:${number}`;
const MARKETPLACE = 'tris:otc:exchange';
const LENDER = 'tris:harbor';
/** Who borrowed: how many installments they paid, one in 30 days, and how many of the last ones they missed. */
const LOANS = [
  { borrower: 1, paid: 14, missed: 0 },
  { borrower: 4172, paid: 12, missed: 0 },
  { borrower: 4291, paid: 12, missed: 0 },
  { borrower: 1018, paid: 9, missed: 0 },
  { borrower: 2125, paid: 8, missed: 0 },
  { borrower: 1334, paid: 6, missed: 0 },
  { borrower: 2642, paid: 6, missed: 1 },
  { borrower: 2388, paid: 4, missed: 0 },
  { borrower: 1810, paid: 3, missed: 2 },
  { borrower: 57, paid: 2, missed: 0 },
];
const TRUSTED = [1, 4172, 4291, 1018];
const CHECKED = [1, 4172, 4291, 2642, 1810, 905];

export const organizations = [
  { tris_org: MARKETPLACE, platform_ids: ['bitcoin-otc'], vetted: true },
  { tris_org: LENDER, platform_ids: ['harbor-loans'], vetted: true },
];

/** @param {Date} start when the recording began: the loans end shortly before that day */
export function actions(start) {
  const csv = readFileSync(new URL('bitcoin-otc-excerpt.csv', import.meta.url), 'utf8');
  return [...parseRatings(csv).map(toAction), ...LOANS.flatMap((loan) => installments(loan, start))];
}

function installments({ borrower, paid, missed }, start) {
  const today = start.getTime() - (start.getTime() % DAY_MS);
  return Array.from({ length: paid + missed }, (_, n) => ({
    tris_id: member(borrower),
    action_type: n < paid ? 'loan_repayment' : 'loan_default_flags',
    category: n < paid ? 'financial' : 'compliance',
    criticality: n < paid ? 'Critical' : 'High',
    platform_id: 'harbor-loans',
    occurred_at: new Date(today - (30 * (paid + missed - n) - 28) * DAY_MS).toISOString(),
    external_id: `loan-${borrower}-${n + 1}`,
  }));
}

/** An installment that had been paid: the lender took the flag back. */
export const withdrawal = { platform_id: 'harbor-loans', external_id: 'loan-2642-7', reason: 'mistake' };

const policy = (policy_id, tris_org, ...inputs) => ({
  policy_id,
  tris_org,
  inputs: inputs.map(([metric, criticality, weight]) => ({ metric, criticality, weight })),
  metadata: { total_weight: 1, visibility: 'public', version: 'v1.0' },
});

/** The first is promoted for its organization; the second is replayed over everybody, and not promoted. */
export const validationPolicies = {
  promoted: policy(
    'VP_HARBOR_V1',
    LENDER,
    ['financial_loan_repayment', 'Critical', 0.14],
    ['compliance_loan_default_flags', 'Critical', 0.14],
    ['social_trade_rating', 'Low', 0.03],
    ['compliance_trade_flags', 'High', 0.1],
  ),
  replayed: policy(
    'VP_OTC_STRICT_V1',
    MARKETPLACE,
    ['social_trade_rating', 'Low', 0.03],
    ['compliance_trade_flags', 'Critical', 0.14],
    ['financial_loan_repayment', 'Moderate', 0.07],
  ),
};

/** `owner` null: the operators. */
export const accessPolicies = [
  {
    owner: null,
    body: { policy_id: 'AP_ESCROW_V1', visibility: 'public', rules: { disc_min: 15, verification: ['zk-KYH'] } },
  },
  {
    owner: LENDER,
    body: {
      policy_id: 'AP_HARBOR_LOAN_V1',
      visibility: 'public',
      rules: { all: [{ tct_min: 900 }, { any: [{ rating_min: 'Fair' }, { verification: ['zk-KYH'] }] }] },
    },
  },
];

export const verifications = TRUSTED.map((number) => ({
  tris_id: member(number),
  status: 'zk-KYH',
  evidence_hash: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
}));

export const checks = accessPolicies.flatMap(({ body }) =>
  CHECKED.map((number) => ({ policy_id: body.policy_id, subject_tris: member(number) })),
);

export const description = `Example data: the ratings of 90 members of a marketplace, and the loans of a lender
  tris:otc:4172 is trusted, tris:otc:905 fell from Poor to BAD, tris:otc:1810 missed installments
  a flag of tris:otc:2642 was a mistake, and is withdrawn
  ${LENDER} scores by VP_HARBOR_V1; VP_OTC_STRICT_V1 has been replayed over everybody
  AP_ESCROW_V1 and AP_HARBOR_LOAN_V1 have granted and denied access`;
