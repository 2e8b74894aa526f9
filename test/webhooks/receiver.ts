import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';

export interface Received {
  id: string;
  headers: Record<string, string>;
  body: string;
  message: { type: string; timestamp: string; data: any; answers?: boolean };
}

/** A receiver of webhooks on this machine. It keeps what it received, and answers as a test wants. */
export class Receiver {
  readonly received: Received[] = [];
  answer: (received: Received, response: ServerResponse) => void = (_, response) => void response.writeHead(204).end();
  private readonly server = createServer(
    { keepAliveTimeout: 0 },
    (request, response) => void this.take(request, response),
  );

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/hook`;
  }

  /** The messages of a type, verified by the published library of the specification. */
  verified(secret: string, type: string): Received['message']['data'][] {
    const verifier = new Webhook(secret);
    return this.received
      .filter(({ message }) => message.type === type)
      .map(({ body, headers }) => (verifier.verify(body, headers) as Received['message']).data);
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private async take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = '';
    for await (const chunk of request) body += String(chunk);
    const headers = request.headers as Record<string, string>;
    const received = { id: headers['webhook-id']!, headers, body, message: JSON.parse(body) };
    this.received.push(received);
    this.answer(received, response);
  }
}
