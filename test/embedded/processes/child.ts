import { spawn, type ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** Another process that runs one of the TypeScript files in this folder and talks in JSON lines. */
export class Child {
  private readonly process: ChildProcess;
  readonly lines: unknown[] = [];
  readonly exited: Promise<number | null>;
  stderr = '';
  private waiting: (() => void)[] = [];

  /** @param within a program that starts it, with arguments, such as `unshare --net` */
  constructor(script: URL, args: string[], env: Record<string, string> = {}, within: readonly string[] = []) {
    const loader = fileURLToPath(new URL('./typescript.mjs', import.meta.url));
    // Not the options of the test runner, which this process would inherit.
    const environment = { ...process.env, NODE_OPTIONS: '', ...env };
    const [program, ...rest] = [...within, process.execPath, '--import', loader, fileURLToPath(script), ...args];
    this.process = spawn(program!, rest, { env: environment, stdio: ['pipe', 'pipe', 'pipe'] });
    this.process.stderr!.on('data', (data: Buffer) => (this.stderr += data.toString()));
    // Sent to one that has just ended.
    this.process.stdin!.on('error', () => undefined);
    createInterface({ input: this.process.stdout! }).on('line', (line) => {
      this.lines.push(JSON.parse(line));
      this.wake();
    });
    this.exited = new Promise((resolve) => {
      this.process.once('close', (code) => {
        resolve(code);
        this.wake();
      });
    });
  }

  get pid(): number {
    return this.process.pid!;
  }

  send(message: unknown): void {
    this.process.stdin!.write(`${JSON.stringify(message)}\n`);
  }

  /** Waits until it has printed that many lines. @throws with its errors if it ends before */
  async printed(count: number): Promise<unknown[]> {
    while (this.lines.length < count) {
      if (this.process.exitCode !== null || this.process.signalCode !== null) {
        throw new Error(`the child ended after ${this.lines.length} lines: ${this.stderr}`);
      }
      await new Promise<void>((resolve) => this.waiting.push(resolve));
    }
    return this.lines;
  }

  signal(signal: NodeJS.Signals): void {
    this.process.kill(signal);
  }

  async kill(): Promise<void> {
    this.process.kill('SIGKILL');
    await this.exited;
  }

  private wake(): void {
    const waiting = this.waiting;
    this.waiting = [];
    for (const resolve of waiting) resolve();
  }
}
