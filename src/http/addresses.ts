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

/** The address in an entry that may have a port, brackets or a zone; an IPv4 address in IPv6 form as IPv4. */
export function addressIn(entry: string): string | undefined {
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
export function groupsOf(address: string): string[] {
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
