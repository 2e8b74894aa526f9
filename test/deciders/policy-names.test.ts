import { decideUseName, nameOwnershipOf } from '../../src/features/policy-names/domain/policy-name.js';
import { logOf } from '../projections/log.js';

const name = 'AP_LOAN';
const assigned = (owner: string | null) =>
  nameOwnershipOf(logOf([{ type: 'PolicyNameAssigned', data: { name, owner } }]));
const use = (organization: string | null) => ({ name, owner: organization, organization });

test('a name that was assigned meanwhile belongs to whom it was assigned, whoever has its oldest version', () => {
  expect(decideUseName(assigned('tris:bank'), { owner: 'tris:squatter' }, use('tris:bank'))).toEqual([]);
  expect(() => decideUseName(assigned('tris:bank'), { owner: 'tris:squatter' }, use('tris:squatter'))).toThrow(
    expect.objectContaining({ code: 'policy_name_not_owned' }),
  );
});

test('a name without a record belongs to the owner of its oldest version, then to whoever uses it first', () => {
  const owners = (older: Parameters<typeof decideUseName>[1], organization: string | null) =>
    decideUseName(undefined, older, use(organization)).map(({ data }) => data['owner']);
  expect(owners({ owner: 'tris:bank' }, null)).toEqual(['tris:bank']);
  expect(owners({ owner: null }, null)).toEqual([null]);
  expect(owners(undefined, 'tris:bank')).toEqual(['tris:bank']);
  expect(() => owners({ owner: null }, 'tris:bank')).toThrow(/belongs to the operators/);
});
