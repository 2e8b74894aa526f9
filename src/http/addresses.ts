import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/** Addresses of clients, as sockets and proxies spell them. */

/** The ranges of this machine and of private networks. */
const PRIVATE = new Set(['loopback', 'private', 'linkLocal', 'uniqueLocal']);

/** Whether an address is of this machine or a private network. */
export function isPrivate(entry: string): boolean {
  return PRIVATE.has(addressIn(entry)?.range() ?? '');
}

/** The address in an entry that may have a port, brackets or a zone; an IPv4 address in IPv6 form as IPv4. */
export function addressIn(entry: string): ipaddr.IPv4 | ipaddr.IPv6 | undefined {
  const bare = /^\[(.+)\](?::\d+)?$|^([^:]+):\d+$/.exec(entry.trim().replace(/^"(.*)"$/, '$1'));
  const address = (bare?.[1] ?? bare?.[2] ?? entry.trim()).replace(/%.*$/, '');
  return isIP(address) ? ipaddr.process(address) : undefined;
}
