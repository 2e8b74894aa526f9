import { receivedError, sentError } from '../../src/kernel/thread-error.js';

class Full extends Error {
  override readonly name = 'Full';
  readonly code = 'store_full';
}
class Changed extends Error {}

const known = [Full, Changed];
const sent = (error: Error) => receivedError(structuredClone(sentError(error, known)), known);

test('an error that both threads know arrives with its class, message and fields', () => {
  const full = sent(new Full('no space'));
  expect(full).toBeInstanceOf(Full);
  expect(full).toMatchObject({ name: 'Full', message: 'no space', code: 'store_full' });
  expect(sent(new Changed('it has changed'))).toBeInstanceOf(Changed);
});

test('any other error arrives with its message, whatever it contains', () => {
  const other = sent(Object.assign(new TypeError('wrong'), { hint: () => 'cannot be cloned' }));
  expect(other).not.toBeInstanceOf(Full);
  expect([other.name, other.message]).toEqual(['TypeError', 'wrong']);
});
