import type { EventStoreDBClient } from '@eventstore/db-client';
import streamsGrpc from '@eventstore/db-client/generated/streams_grpc_pb.js';
import { type AppendResponse, appendResponse } from './messages.js';
import type { Link } from './link.js';
import { connectionReplaced, NoAnswer, type Pulse } from './pulse.js';

/** What a call sends, and who takes the answers. */
interface Appends {
  /** The next encoded append; undefined if none may be sent while so many have no answer. */
  next(inFlight: number): Buffer | undefined;
  /** Whether the server behind the link is still the one that was checked. */
  isConfirmed(): boolean;
  /** @returns an error if the append has no definite outcome: the call then fails */
  answered(response: AppendResponse): Error | undefined;
}

type ServerCall = Awaited<ReturnType<typeof batchAppend>>;

/** One call of the server's BatchAppend, on which appends are sent and answered until it fails. */
export class AppendCall {
  /** Rejects with the reason when the call fails. */
  readonly failed: Promise<never>;
  private fail: (error: unknown) => void = () => undefined;
  private call: ServerCall | undefined;
  private inFlight = 0;
  private isBlocked = false;
  private hasEnded = false;
  private readonly watchdog: ReturnType<Pulse['watch']>;
  private readonly onGone = (): void => this.fail(connectionReplaced());

  constructor(
    private readonly link: Link,
    private readonly appends: Appends,
  ) {
    this.failed = new Promise((_, reject) => (this.fail = reject));
    link.gone.addEventListener('abort', this.onGone);
    if (link.gone.aborted) this.onGone();
    this.watchdog = link.pulse.watch(() => this.inFlight > 0, this.fail);
    batchAppend(link.client).then((call) => this.listen(call), this.fail);
  }

  /** Sends what may be sent now. */
  send(): void {
    while (this.call && !this.isBlocked && !this.hasEnded) {
      const append = this.appends.next(this.inFlight);
      if (!append) return;
      this.inFlight++;
      this.isBlocked = !this.call.write(append);
    }
  }

  end(): void {
    this.hasEnded = true;
    this.watchdog.end();
    this.link.gone.removeEventListener('abort', this.onGone);
    this.call?.cancel();
  }

  private listen(call: ServerCall): void {
    if (this.hasEnded) return call.cancel();
    this.call = call;
    call.on('drain', () => {
      this.isBlocked = false;
      this.send();
    });
    call.on('data', (response: AppendResponse) => this.take(response));
    call.on('error', this.fail);
    call.on('end', () => this.fail(new NoAnswer('the server ended the call')));
    this.send();
  }

  private take(response: AppendResponse): void {
    if (this.hasEnded) return;
    if (!this.appends.isConfirmed()) return this.fail(connectionReplaced());
    this.watchdog.alive();
    this.inFlight--;
    const unknown = this.appends.answered(response);
    if (unknown) this.fail(unknown);
    else this.send();
  }
}

function batchAppend(client: EventStoreDBClient) {
  const create = client['GRPCStreamCreator'](streamsGrpc.StreamsClient, 'appendToStream', (grpc) =>
    grpc.makeBidiStreamRequest<Buffer, AppendResponse>(
      streamsGrpc.StreamsService.batchAppend.path,
      (request) => request,
      appendResponse,
      ...client['callArguments']({}, { deadline: Infinity }),
    ),
  );
  return create();
}
