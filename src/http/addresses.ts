import { BlockList, isIP, isIPv4 } from 'node:net';

/** Addresses of clients, as sockets and proxies spell them. */

const PRIVATE = new BlockList();
for (const [network, bits] of [
  ['127.0.0.0', 8],
  ['10.0.0.0', 8],
  ['172.16.0.0', 12],
  ['192.168.0.0', 16],
  ['169.254.0.0', 16],
] as const) {
  PRIVATE.addSubnet(network, bits, 'ipv4');
}
PRIVATE.addAddress('::1', 'ipv6');
PRIVATE.addSubnet('fc00::', 7, 'ipv6');
PRIVATE.addSubnet('fe80::', 10, 'ipv6');

/** Whether an address is of this machine or a private network. */
export function isPrivate(entry: string): boolean {
  const address = addressIn(entry);
  return address !== undefined && PRIVATE.check(address, isIPv4(address) ? 'ipv4' : 'ipv6');
}

/** Who is counted: an address, or the network that an IPv6 client can choose its address from. */
export interface Client {
  /** An IPv4 address, or the /64 of an IPv6 address. */
  network: string;
  /** The /48 of an IPv6 address: what a provider assigns to one customer at most. */
  site: string | undefined;
}

/** @param entry of a socket or of X-Forwarded-For. Whatever is not an address counts as one client. */
export function clientOf(entry: string): Client {
  if (isIPv4(entry)) return { network: entry, site: undefined };
  const address = addressIn(entry);
  if (address === undefined) return { network: 'unknown', site: undefined };
  if (isIPv4(address)) return { network: address, site: undefined };
  const groups = groupsOf(address);
  return { network: groups.slice(0, 4).join(':'), site: `${groups.slice(0, 3).join(':')}::/48` };
}

/** The address in an entry that may have a port, brackets or a zone; an IPv4 address in IPv6 form as IPv4. */
function addressIn(entry: string): string | undefined {
  const bare = /^\[(.+)\](?::\d+)?$|^([^:]+):\d+$/.exec(entry.trim().replace(/^"(.*)"$/, '$1'));
  const address = (bare?.[1] ?? bare?.[2] ?? entry.trim()).replace(/%.*$/, '');
  const version = isIP(address);
  if (version !== 6) return version === 4 ? address : undefined;
  const groups = groupsOf(address);
  if (groups.slice(0, 5).some((group) => group !== '0') || groups[5] !== 'ffff') return address;
  return groups
    .slice(6)
    .flatMap((group) => [parseInt(group, 16) >> 8, parseInt(group, 16) & 255])
    .join('.');
}

/** The eight groups of an IPv6 address, lower case, without leading zeros. */
function groupsOf(address: string): string[] {
  const hex = address.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, ...bytes: string[]) => {
    const [a, b, c, d] = bytes.slice(0, 4).map(Number) as [number, number, number, number];
    return `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
  });
  const [head = '', tail] = hex.split('::');
  const groups = head === '' ? [] : head.split(':');
  if (tail !== undefined) {
    const rest = tail === '' ? [] : tail.split(':');
    while (groups.length + rest.length < 8) groups.push('0');
    groups.push(...rest);
  }
  return groups.map((group) => parseInt(group, 16).toString(16));
}
