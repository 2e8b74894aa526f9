/** The server was silent although an answer was due, or the client was replaced meanwhile. */
export class NoAnswer extends Error {
  override readonly name: string = 'NoAnswer';
}

export function connectionReplaced(): NoAnswer {
  return new NoAnswer('the connection was made again');
}

/** One call got no answer for too long, while the server answered on the same connection: the call alone is given up. */
export class CallUnanswered extends NoAnswer {
  override readonly name = 'CallUnanswered';
}

export const OTHERS_ANSWERED = 'though the server answers other calls';

export interface PulseTimes {
  /** A connection on which nothing arrives for this long while an answer is due is silent, ms. */
  answerMs: number;
  /** A call that gets nothing for this long is given up, although the connection works, ms. */
  callMs: number;
}

/** Checks of silence within the allowed time. They are counted, not the time: a pause of this process is no silence. */
const LOOKS = 4;

interface Call {
  isDue: () => boolean;
  fail: (error: NoAnswer) => void;
  looks: number;
}

/**
 * Judges the silence of a connection as a whole. A slow server keeps single calls waiting although it works, so a call
 * without an answer is no reason to replace the connection as long as anything else arrives on it. Before a connection
 * counts as silent, the server is asked something that it answers from memory.
 */
export class Pulse {
  private looks = 0;
  private lastSign = -Infinity;
  private timer: NodeJS.Timeout | undefined;
  private readonly calls = new Set<Call>();

  /** @param probe resolves if the server answers */
  constructor(
    private readonly times: PulseTimes,
    private readonly probe: () => Promise<void>,
  ) {}

  /** Whether anything has arrived within the time after which a connection counts as silent. */
  get isFresh(): boolean {
    return performance.now() - this.lastSign < this.times.answerMs;
  }

  /** Ends all calls: the client was replaced, so they get no answer. */
  stop(): void {
    for (const { fail } of this.calls) fail(connectionReplaced());
  }

  /** Something has arrived. */
  sign(): void {
    this.looks = 0;
    this.lastSign = performance.now();
  }

  /**
   * Watches a call until `end`. Call `alive` whenever something arrives for it.
   * @param isDue whether the server owes this call an answer
   * @param fail called when the connection is silent, this call is not answered, or the client is replaced
   */
  watch(isDue: () => boolean, fail: (error: NoAnswer) => void): { alive: () => void; end: () => void } {
    const call: Call = { isDue, fail, looks: 0 };
    this.calls.add(call);
    this.timer ??= setInterval(() => this.look(), this.times.answerMs / LOOKS);
    const alive = () => {
      call.looks = 0;
      this.sign();
    };
    const end = () => {
      this.calls.delete(call);
      if (this.calls.size > 0) return;
      clearInterval(this.timer);
      this.timer = undefined;
      this.looks = 0;
    };
    return { alive, end };
  }

  private look(): void {
    const { answerMs, callMs } = this.times;
    const due = [...this.calls].filter((call) => call.isDue());
    if (due.length === 0) {
      this.looks = 0;
      return;
    }
    this.looks++;
    if (this.looks === LOOKS / 2) {
      void this.probe().then(
        () => this.sign(),
        () => undefined,
      );
    }
    const isSilent = this.looks >= LOOKS;
    if (isSilent) [this.looks, this.lastSign] = [0, -Infinity];
    for (const call of due) {
      call.looks++;
      if (isSilent) call.fail(new NoAnswer(`nothing came for ${answerMs} ms`));
      else if ((call.looks * answerMs) / LOOKS >= callMs) {
        call.looks = 0;
        call.fail(new CallUnanswered(`no answer came for ${callMs} ms, ${OTHERS_ANSWERED}`));
      }
    }
  }
}
