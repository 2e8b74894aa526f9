import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

/**
 * - `open`: passes everything on
 * - `stalled`: takes connections and keeps what comes; passes it on once it is open again
 * - `hanging`: takes connections and throws away what comes, also while there is no server
 * - `deaf`: passes on what the client sends, and throws away what the server answers
 */
export type ProxyMode = 'open' | 'stalled' | 'hanging' | 'deaf';

/** A TCP proxy in front of a server on the loopback, whose network can be made bad. */
export class Proxy {
  port = 0;
  /** The number of connections made so far. */
  accepted = 0;
  /** Set before a connection is made. What the server sends arrives this much later, ms. */
  delayMs = 0;
  /** What the client sends is passed on at this rate. */
  bytesPerSecond = Infinity;
  /** Bytes that the server has sent. */
  answered = 0;
  /** Answers that were thrown away with their connection: each by a call of `loseNextAnswer`. */
  lostAnswers = 0;
  /** How much of the next answer is passed on, as a fraction; undefined: all answers are. */
  private partOfNextAnswer: number | undefined;
  private currentMode: ProxyMode = 'open';
  private readonly pairs = new Set<{ client: Socket; server: Socket }>();
  private readonly listener;

  private constructor(
    /** The port of the server that further connections lead to. */
    public target: number,
  ) {
    this.listener = createServer((client) => {
      const pair = { client, server: connect(this.target, '127.0.0.1') };
      this.pairs.add(pair);
      this.accepted++;
      this.apply(pair);
      for (const [from, to] of [
        [pair.client, pair.server],
        [pair.server, pair.client],
      ] as const) {
        from.on('data', (data) => {
          const isAnswer = from === pair.server;
          if (isAnswer) this.answered += data.length;
          if (this.currentMode === 'hanging' || (this.currentMode === 'deaf' && isAnswer)) return;
          if (isAnswer && this.partOfNextAnswer !== undefined) this.lose(pair.client, data);
          else if (isAnswer && this.delayMs > 0) setTimeout(() => to.writable && to.write(data), this.delayMs);
          else if (!to.write(data)) from.pause();
          if (!isAnswer && this.bytesPerSecond < Infinity) this.hold(pair, data.length);
        });
        to.on('drain', () => this.currentMode !== 'stalled' && from.resume());
        from.on('error', () => undefined);
        from.on('close', () => {
          if (this.currentMode === 'hanging' && from === pair.server) return;
          to.destroy();
          this.pairs.delete(pair);
        });
      }
    });
  }

  static async to(port: number): Promise<Proxy> {
    const proxy = new Proxy(port);
    proxy.listener.listen(0, '127.0.0.1');
    await once(proxy.listener, 'listening');
    proxy.port = (proxy.listener.address() as { port: number }).port;
    return proxy;
  }

  get connections(): number {
    return this.pairs.size;
  }

  set mode(mode: ProxyMode) {
    this.currentMode = mode;
    for (const pair of this.pairs) this.apply(pair);
  }

  /** Every present connection stays open and passes nothing on any more, as where a firewall has forgotten it. */
  freeze(): void {
    for (const { client, server } of this.pairs) {
      client.removeAllListeners('data');
      server.removeAllListeners('data');
    }
  }

  /** Breaks every connection. */
  cut(): void {
    for (const { client, server } of this.pairs) {
      client.resetAndDestroy();
      server.destroy();
    }
  }

  /** Breaks the connection on which the next answer comes, after this part of the answer. */
  loseNextAnswer(part = 0): void {
    this.partOfNextAnswer = part;
  }

  private lose(client: Socket, answer: Buffer): void {
    client.end(answer.subarray(0, answer.length * this.partOfNextAnswer!), () => client.destroy());
    this.partOfNextAnswer = undefined;
    this.lostAnswers++;
  }

  async close(): Promise<void> {
    const closed = once(this.listener.close(), 'close');
    this.cut();
    await closed;
  }

  /** Takes nothing more of the client until this much has passed at the rate. */
  private hold({ client }: { client: Socket }, bytes: number): void {
    client.pause();
    setTimeout(() => this.currentMode !== 'stalled' && client.resume(), (1000 * bytes) / this.bytesPerSecond);
  }

  private apply({ client, server }: { client: Socket; server: Socket }): void {
    if (server.destroyed && this.currentMode !== 'hanging') client.destroy();
    for (const socket of [client, server]) {
      if (this.currentMode === 'stalled') socket.pause();
      else socket.resume();
    }
  }
}
