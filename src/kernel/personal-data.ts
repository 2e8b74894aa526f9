/**
 * An e-mail address or a telephone number with `+`, alone or as a part of an id. The parts of an id are separated by
 * ":", or by "@" where that is not the one of the address, as in tris:customer:john@example.org:1.
 */
const E_MAIL_ADDRESS = /(?:^|[:@])[A-Za-z0-9._%+-]+@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}(?=[:@]|$)/;
const TELEPHONE_NUMBER = /(?:^|[:@])\+[ ().-]*(?:\d[ ().-]*){7,24}(?=[:@]|$)/;

/**
 * What an id contains that names a natural person; undefined if nothing. The log is permanent, so such an id is refused
 * when it is written. The prefix `tris@` is not a part of an address: tris@lendco.org is none.
 */
export function personalDataIn(id: string): 'e-mail address' | 'telephone number' | undefined {
  const name = id.replace(/^tris@/, '');
  if (E_MAIL_ADDRESS.test(name)) return 'e-mail address';
  return TELEPHONE_NUMBER.test(name) ? 'telephone number' : undefined;
}

/** What a value that is recorded permanently must do; completes "<field> must ". */
export const NAME_NOBODY =
  'not contain an e-mail address or a telephone number, since it is recorded permanently; use a keyed hash of it';

/** What exports and notices tell their subject; docs/privacy.md says it in full. */
export const ERASURE =
  'On request, stored texts are deleted, and links of wallets, verifications and sessions end. The log is permanent, so ' +
  'that scores and decisions can be checked: it keeps ids, times, numbers and codes, which name nobody once the ' +
  'application has deleted its own link between the person and the id.';
