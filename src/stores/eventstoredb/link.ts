import { once } from 'node:events';
import { connect } from 'node:http2';
import { EventStoreDBClient } from '@eventstore/db-client';
import features from '@eventstore/db-client/generated/serverfeatures_grpc_pb.js';
import shared from '@eventstore/db-client/generated/shared_pb.js';
import { StartError } from '../../kernel/start-error.js';
import { Pulse, type PulseTimes } from './pulse.js';

/** These numbers are those of grpc-js, which is not imported just for them. */
const CONNECTING = 1;
const READY = 2;
const SHUTDOWN = 4;
const CANCELLED = 1;
const UNIMPLEMENTED = 12;
const UNAVAILABLE = 14;

type Channel = Awaited<ReturnType<EventStoreDBClient['getChannel']>>;

let sessions = 0;

/** One client of the library, until it is replaced. */
export class Link {
  readonly client: EventStoreDBClient;
  readonly pulse: Pulse;
  /** Identifies the client's present connection: a new number after every reconnect. */
  session = ++sessions;
  /** The client was replaced: no call may begin on it. */
  hasEnded = false;
  private opening: Promise<Channel> | undefined;
  private channel: Channel | undefined;

  /** @param dropped called when the connection has ended. @throws StartError for a connection string it cannot read */
  constructor(
    url: string,
    times: PulseTimes,
    warn: (message: string) => void,
    private readonly dropped: () => void,
  ) {
    this.client = clientOf(url, warn);
    this.pulse = new Pulse(times, () => probe(this.client, times.answerMs));
    this.keepOnErrors();
    this.watchChannels();
  }

  /** The connection is open, and the server has just sent something on it. */
  get isWell(): boolean {
    return this.channel?.getConnectivityState(false) === READY && this.pulse.isFresh;
  }

  /** The connection was requested, and the server has sent nothing on it yet. */
  get isConnecting(): boolean {
    return this.channel?.getConnectivityState(false) === CONNECTING;
  }

  get target(): string {
    return this.channel!.getTarget();
  }

  end(): void {
    this.hasEnded = true;
    this.pulse.stop();
    // The client's own `dispose` cancels the calls and leaves the connection open.
    void this.client.dispose().catch(() => undefined);
    this.opening?.then(
      (open) => open.close(),
      () => undefined,
    );
  }

  /**
   * After such an error the library closes the connection, which ends every other call on it, although the server may
   * only be too busy for that one. It calls this function without awaiting it, and a rejection, when the discovery of a
   * cluster fails, would end the process.
   */
  private keepOnErrors(): void {
    const { client } = this;
    const handleError = client['handleError'];
    client['handleError'] = async (grpc, error) => {
      const { code } = error as { code?: number };
      if ((code === CANCELLED || code === UNAVAILABLE) && this.isWell) return;
      await handleError(grpc, error).catch(() => undefined);
    };
  }

  private watchChannels(): void {
    const { client } = this;
    const getChannel = client['getChannel'];
    client['getChannel'] = async () => {
      const open = await (this.opening = getChannel());
      if (open !== this.channel) {
        this.channel = open;
        this.session = ++sessions;
        this.watch(open);
      }
      return open;
    };
  }

  /** Below the client, a channel reconnects by itself, to whatever server is there then. */
  private watch(channel: Channel): void {
    let wasReady = false;
    const look = (): void => {
      if (channel !== this.channel || this.hasEnded) return;
      const state = channel.getConnectivityState(false) as number;
      if (state === SHUTDOWN) return;
      if (state === READY) wasReady = true;
      else if (wasReady) {
        wasReady = false;
        this.session = ++sessions;
        this.dropped();
      }
      channel.watchConnectivityState(state as never, Infinity, look);
    };
    look();
  }
}

/** Resolves if the server answers a question that needs none of its data. */
async function probe(client: EventStoreDBClient, ms: number): Promise<void> {
  await client['execute'](
    features.ServerFeaturesClient,
    'getSupportedMethods',
    (grpc) =>
      new Promise<void>((resolve, reject) => {
        grpc.getSupportedMethods(
          new shared.Empty(),
          ...client['callArguments']({}, { deadline: Date.now() + ms }),
          (error) => (error && error.code !== UNIMPLEMENTED ? reject(error) : resolve()),
        );
      }),
  );
}

/** Whether the server at `dns:host:port` accepts HTTP/2 connections now. */
export async function answers(target: string, url: string, ms: number): Promise<boolean> {
  const scheme = /[?&]tls=false/i.test(url) ? 'http' : 'https';
  const authority = target.replace(/^\w+:\/*(?=.*:)/, '');
  // Nothing is sent: the client's own connection verifies the server's certificate.
  const session = connect(`${scheme}://${authority}`, { rejectUnauthorized: false });
  session.on('error', () => undefined);
  try {
    await once(session, 'remoteSettings', { signal: AbortSignal.timeout(ms) });
    return true;
  } catch {
    return false;
  } finally {
    session.destroy();
  }
}

function clientOf(url: string, warn: (message: string) => void): EventStoreDBClient {
  // The parser warns on the console and prints the whole string with its credentials. Only the first line has none.
  const onConsole = console.warn;
  console.warn = (message: unknown) => warn(`EVENTSTORE_URL: ${withoutCredentials(String(message).split('\n')[0]!)}`);
  try {
    // The name of the server since version 25, which this client does not know.
    return EventStoreDBClient.connectionString(url.replace(/^kurrentdb(?=[+:])/, 'esdb'));
  } catch (error) {
    throw new StartError(`EVENTSTORE_URL cannot be used: ${withoutCredentials((error as Error).message)}`);
  } finally {
    console.warn = onConsole;
  }
}

export function withoutCredentials(text: string): string {
  return text.replace(/\/\/[^@/?"]*@/g, '//').replace(/[^\s"]+:[^\s"]+@(?=[^\s@]*$)/, '');
}
