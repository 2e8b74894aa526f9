import type { Writer } from '../../src/commands/writer.js';
import { decideRegister, decideVetting, organizationOf } from '../../src/features/organizations/domain/organization.js';
import { Platforms } from '../../src/features/organizations/platforms.js';
import { RECORDED, about, logOf } from '../projections/log.js';

const DAO = 'tris:dao';
const after = (...types: string[]) => organizationOf(logOf(types.map((type) => about(type, DAO))));
const types = (facts: { type: string }[]) => facts.map(({ type }) => type);

const registered = ['OrganizationRegistered'];
const vetted = [...registered, 'OrganizationVetted'];
const unvetted = [...vetted, 'OrganizationVettingRevoked'];

test.each([
  ['nothing', [], null, false],
  ['its registration', registered, Date.parse(RECORDED), false],
  ['its vetting', vetted, Date.parse(RECORDED), true],
  ['the revocation of that', unvetted, Date.parse(RECORDED), false],
  ['another vetting', [...unvetted, 'OrganizationVetted'], Date.parse(RECORDED), true],
])('after %s an organization is what its stream says', (_name, history, registered_at, isVetted) => {
  expect(after(...history)).toEqual({ registered_at, vetted: isVetted });
});

test('an organization is registered once', () => {
  expect(decideRegister(after(), DAO)).toMatchObject([{ type: 'OrganizationRegistered', data: { tris_org: DAO } }]);
  expect(decideRegister(after(...registered), DAO)).toEqual([]);
});

test.each([
  [registered, true, ['OrganizationVetted']],
  [registered, false, []],
  [vetted, true, []],
  [vetted, false, ['OrganizationVettingRevoked']],
  [unvetted, true, ['OrganizationVetted']],
  [unvetted, false, []],
])('after %p, vetted: %p is %p', (history, wanted, expected) => {
  expect(types(decideVetting(after(...history), DAO, wanted))).toEqual(expected);
});

test('who owns an unregistered platform is read once for all who ask in one turn, and again for those who ask later', async () => {
  let reads = 0;
  const history: object[] = [];
  const writer = { firstOf: async () => (reads++, history[0]) } as unknown as Writer;
  const platforms = new Platforms(writer);
  const ask = (...ids: string[]) => Promise.all(ids.map((id) => platforms.ownerOf(id)));
  expect(await ask('lender', 'lender', 'bank', 'lender')).toEqual([null, null, null, null]);
  expect(reads).toBe(2);
  history.push({ data: { tris_org: DAO } });
  expect(await ask('lender', 'lender')).toEqual([DAO, DAO]);
  expect(reads).toBe(3);
  // An owner never changes.
  expect(await ask('lender')).toEqual([DAO]);
  expect(reads).toBe(3);
});
