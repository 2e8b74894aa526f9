import { isPrivate } from '../../src/http/addresses.js';

/** Which proxies are trusted to tell the address of a client. */

test.each([
  '127.0.0.1',
  '127.255.0.9',
  '10.0.0.1',
  '172.16.0.1',
  '172.31.255.255',
  '192.168.7.7',
  '169.254.1.1',
  '::1',
  'fe80::1%eth0',
  'febf::1',
  'fc00::1',
  'fd12:3456::1',
  '::ffff:10.1.2.3',
  '::ffff:a01:203',
  '[fd00::1]:443',
  '10.0.0.1:8080',
  ' 10.0.0.1 ',
])('%j is an address of this machine or a private network', (entry) => {
  expect(isPrivate(entry)).toBe(true);
});

test.each([
  '8.8.8.8',
  '11.0.0.1',
  '172.15.255.255',
  '172.32.0.1',
  '192.169.0.1',
  '100.64.0.1',
  '0.0.0.0',
  '2001:db8::1',
  'fec0::1',
  'fe00::1',
  '::ffff:8.8.8.8',
  '::a01:203',
  '64:ff9b::a01:203',
  '10.0.0',
  '10.0.0.1.evil.example',
  '0x0a000001',
  '012.0.0.1',
  'localhost',
  'unknown',
  '',
])('%j is none', (entry) => {
  expect(isPrivate(entry)).toBe(false);
});
