import { personalDataIn } from '../../src/kernel/personal-data.js';

/** What names a person is told from what only looks like it. */

test.each([
  ['tris:john.doe@gmail.com', 'e-mail address'],
  ['tris@john.doe@gmail.com', 'e-mail address'],
  ['did:web:john.doe@gmail.com', 'e-mail address'],
  ['tris:customer:j+x@mail.example.co', 'e-mail address'],
  ['jane@shop.example', 'e-mail address'],
  ['tris:+4915112345678', 'telephone number'],
  ['+1 (202) 555-0143', 'telephone number'],
  ['tris:85.07.30-033.28', 'national number'],
  ['tris:85073003328', 'national number'],
  ['tris:529.982.247-25', 'national number'],
  ['tris:11010519491231002X', 'national number'],
  ['tris:131052-308T', 'national number'],
  ['tris:255081416802538', 'national number'],
  ['tris:RSSMRA85T10A562S', 'national number'],
  ['rssmra85t10a562s', 'national number'],
  ['creative_rssmra85t10a562s', 'national number'],
  ['tris:44051401359', 'national number'],
  ['tris:12345678Z', 'national number'],
  ['tris:X1234567L', 'national number'],
  ['tris:811218-9876', 'national number'],
  ['did:example:198112189876', 'national number'],
])('%s is an %s', (text, kind) => expect(personalDataIn(text)).toBe(kind));

test.each([
  'tris@lendco.org',
  'tris:lendco.org',
  'tris:otc:4172',
  'tris:4172',
  'tris:1234567890',
  'tris:8112189876',
  'tris:85073003329',
  'tris:11010519491231002Y',
  'tris:12345678A',
  'tris:RSSMRA85T10A562T',
  'tris:0x9d85ca56217d2bb651b00f15e694eb7e713637d4',
  'tris:eip155:1:0x9d85ca56217d2bb651b00f15e694eb7e713637d4',
  'did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK',
  'did:web:example.org',
  'tris:1763806515000',
  'loan_repayment_consistency',
  'eip155:1',
])('%s is a name like any other', (text) => expect(personalDataIn(text)).toBeUndefined());
