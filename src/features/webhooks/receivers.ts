import type { LookupAddress } from 'node:dns';
import http, { type IncomingMessage } from 'node:http';
import https from 'node:https';
import { BlockList, type LookupFunction, isIP, isIPv6 } from 'node:net';
import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { Config } from '../../kernel/config.js';
import { ReceiverNames } from './receiver-names.js';

/** How long a receiver may take to answer, ms. */
const TIMEOUT_MS = 5_000;
/** How long a connection is kept without a message, ms. Receivers could keep theirs open for as long as they like. */
const IDLE_MS = 10_000;
/** An answer's body is not used; a connection whose answer is larger is closed. */
const MAX_BYTES = 16 * 1024;
const MAX_URL = 2_048;
/** Of a name of the DNS, with a dot at its end. */
const MAX_NAME = 254;
/** What a name of the DNS has between its dots. Receivers exist whose names have underscores. */
const NAME_PART = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/i;
/** Connections of one owner's webhooks to one receiver. */
const CONNECTIONS = 16;

/** Why a delivery failed before there was a status. */
export type Failure = 'timeout' | 'address_not_public' | 'unknown_host' | 'tls_failed' | 'connection_failed';

/** A type, not an interface: it is stored as JSON. */
export type Outcome = {
  /** Of the answer; null without one. */
  status: number | null;
  failure: Failure | null;
  /** How long it took. */
  ms: number;
};

export const isDelivered = ({ status }: Outcome): boolean => status !== null && status >= 200 && status < 300;

/** Addresses that are not on the public Internet (the registries of RFC 6890). Of IPv6, only 2000::/3 is. */
const NOT_PUBLIC = new BlockList();
for (const network of [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
  // Of 2000::/3: protocol assignments (Teredo among them), documentation, and 6to4, which contains an IPv4 address.
  '2001::/23',
  '2001:db8::/32',
  '2002::/16',
  '3fff::/20',
]) {
  const [address, prefix] = network.split('/') as [string, string];
  NOT_PUBLIC.addSubnet(address, Number(prefix), isIPv6(address) ? 'ipv6' : 'ipv4');
}
const PUBLIC_IPV6 = new BlockList();
PUBLIC_IPV6.addSubnet('2000::', 3, 'ipv6');
const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

const familyOf = (address: string) => (isIPv6(address) ? 'ipv6' : 'ipv4');

/** Whether an address is on the public Internet. An IPv4 address in IPv6 form is not. */
export function isPublic(address: string): boolean {
  if (isIP(address) === 0) return false;
  const family = familyOf(address);
  if (family === 'ipv6' && !PUBLIC_IPV6.check(address, family)) return false;
  return !NOT_PUBLIC.check(address, family);
}

const isLoopback = (address: string): boolean => isIP(address) !== 0 && LOOPBACK.check(address, familyOf(address));

/** The name or address in a URL. Its parser has brought decimal, octal and hexadecimal IPv4 addresses to the usual form. */
const hostOf = ({ hostname }: URL): string => hostname.replace(/^\[(.*)\]$/, '$1');

class NotPublic extends Error {}

/** Sends requests to the receivers of webhooks, which must not reach the service's own networks. */
@Injectable()
export class Receivers implements OnApplicationShutdown {
  /** Replaced by tests. */
  names: Pick<ReceiverNames, 'addressesOf'> = new ReceiverNames();
  /** Replaced by tests. */
  idleMs = IDLE_MS;
  /** By owner: many have webhooks at the same provider, and a slow one must not keep others from it. */
  private readonly agents = new Map<string | null, Record<'http:' | 'https:', http.Agent>>();

  /** Ends the requests without an answer so far. */
  private readonly open = new Set<AbortController>();
  /** The process ends: what has no answer so far was not refused by its receiver. */
  isStopping = false;

  constructor(private readonly config: Config) {}

  onApplicationShutdown(): void {
    this.isStopping = true;
    // Those without a connection would get one each time another ends.
    for (const request of this.open) request.abort();
    for (const agents of this.agents.values()) for (const agent of Object.values(agents)) agent.destroy();
  }

  /** What is wrong with a receiver's URL; undefined if nothing is. Where its name leads is checked at each connection. */
  faultOf(text: string): string | undefined {
    const url = text.length <= MAX_URL && URL.canParse(text) ? new URL(text) : undefined;
    if (!url) return `url must be a URL of at most ${MAX_URL} characters`;
    // The parser leaves some of them out, so that the stored text would be another URL than the one that is called.
    if (/[\p{C}\p{Z}]/u.test(text)) return 'url must not contain spaces or control characters';
    if (url.username || url.password) return 'url must not contain a user name or a password';
    if (url.hash) return 'url must not contain a fragment';
    const host = hostOf(url);
    const isLocal = /^localhost$/i.test(host) || isLoopback(host);
    if (isLocal && !this.config.webhookLoopback) return 'url must not lead to this machine';
    if (url.protocol !== 'https:' && !(isLocal && url.protocol === 'http:')) return 'url must begin with https://';
    const { webhookPorts } = this.config;
    if (!isLocal && !webhookPorts.includes(url.port || '443')) return `the port must be ${webhookPorts.join(' or ')}`;
    if (isIP(host) !== 0) return this.isAllowed(url, host) ? undefined : 'url must lead to a public address';
    const parts = host.replace(/\.$/, '').split('.');
    const isName = host.length <= MAX_NAME && parts.every((part) => NAME_PART.test(part));
    if (!isName) return `the host in url must be a name of the DNS, which "${host.slice(0, MAX_NAME)}" is not`;
    return undefined;
  }

  /**
   * Posts a message. Redirects are not followed: they count as a failure. The time for the answer does not include the
   * wait for a connection, while other messages of the owner use all that the receiver may have.
   */
  async post(owner: string | null, to: string, headers: Record<string, string>, body: string): Promise<Outcome> {
    let began = performance.now();
    const ended = (status: number | null, failure: Failure | null): Outcome => {
      return { status, failure, ms: Math.round(performance.now() - began) };
    };
    const url = new URL(to);
    const host = hostOf(url);
    // The name is resolved for each connection, but an address in the URL is not looked up.
    if (this.faultOf(to) !== undefined) return ended(null, 'address_not_public');
    const ending = new AbortController();
    this.open.add(ending);
    let isLate = false;
    try {
      const protocol = url.protocol as 'http:' | 'https:';
      const options = {
        method: 'POST',
        agent: this.agentOf(owner, protocol),
        headers: { ...headers, 'content-length': Buffer.byteLength(body) },
        lookup: isIP(host) === 0 ? this.lookup(url, owner) : undefined,
        signal: ending.signal,
      };
      const answer = await new Promise<IncomingMessage>((resolve, reject) => {
        const request = (protocol === 'https:' ? https : http).request(url, options, resolve);
        request.once('socket', () => {
          began = performance.now();
          const timer = setTimeout(() => {
            isLate = true;
            ending.abort();
          }, TIMEOUT_MS);
          request.once('close', () => clearTimeout(timer));
        });
        request.once('error', reject);
        // A receiver that answers 101 gets its connection closed, which is neither an answer nor an error.
        request.once('close', () => reject(new Error('closed without an answer')));
        request.end(body);
      });
      discard(answer);
      return ended(answer.statusCode ?? null, null);
    } catch (error) {
      return ended(null, isLate ? 'timeout' : failureOf(error as NodeJS.ErrnoException));
    } finally {
      this.open.delete(ending);
    }
  }

  private agentOf(owner: string | null, protocol: 'http:' | 'https:'): http.Agent {
    let agents = this.agents.get(owner);
    if (!agents) {
      const options = { keepAlive: true, maxSockets: CONNECTIONS, timeout: this.idleMs };
      this.agents.set(owner, (agents = { 'http:': new http.Agent(options), 'https:': new https.Agent(options) }));
    }
    return agents[protocol];
  }

  /** A look-up that returns only addresses that it has checked, so that the connection is made to one of them. */
  private lookup(url: URL, owner: string | null): LookupFunction {
    return (host, options, done) => {
      const found = (addresses: LookupAddress[]): void => {
        const [first] = addresses;
        if (!first || !addresses.every(({ address }) => this.isAllowed(url, address))) return done(new NotPublic(), '');
        if (options.all) return done(null, addresses);
        return done(null, first.address, first.family);
      };
      this.names.addressesOf(host, owner).then(found, (error: Error) => done(error, ''));
    };
  }

  private isAllowed(url: URL, address: string): boolean {
    const host = hostOf(url);
    const isLocal = host === 'localhost' || isLoopback(host);
    return isLocal ? this.config.webhookLoopback && isLoopback(address) : isPublic(address);
  }
}

/** Reads the rest of an answer, so that its connection can be used again, unless there is too much of it. */
function discard(answer: IncomingMessage): void {
  let size = 0;
  answer.on('data', (chunk: Buffer) => {
    size += chunk.length;
    if (size > MAX_BYTES) answer.destroy();
  });
  // The status is known, so what happens to the rest does not matter.
  answer.on('error', () => undefined);
}

function failureOf(error: NodeJS.ErrnoException): Failure {
  if (error instanceof NotPublic) return 'address_not_public';
  const code = error.code ?? '';
  if (code === 'ECANCELLED' || code === 'ETIMEOUT') return 'timeout';
  if (/^E(NOTFOUND|NODATA|SERVFAIL|REFUSED|BADNAME)$/.test(code)) return 'unknown_host';
  return /^ERR_(SSL|TLS)|CERT|SELF_SIGNED|ALTNAME|EPROTO/.test(code) ? 'tls_failed' : 'connection_failed';
}
