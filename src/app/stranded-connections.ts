import type { Worker } from 'node:cluster';

/** The messages of node:cluster by which the first process passes a connection on, and by which the other answers. */
interface ClusterMessage {
  act?: string;
  seq?: number;
  ack?: number;
}

interface ConnectionHandle {
  close(): void;
}

/**
 * Closes the connections that are being passed to a process when it ends. node:cluster waits for the answer of that
 * process for ever, so that the client would wait until its own time limit (Node 20, 22 and 24). There is no public
 * interface to these connections, so this looks at the messages; test/faults/processes.test.ts fails if they change.
 */
export function closeStrandedConnections(worker: Worker): void {
  const child = worker.process;
  const passed = new Map<number, ConnectionHandle>();
  const send = child.send.bind(child) as (...args: unknown[]) => boolean;
  child.send = (message: ClusterMessage, ...rest: unknown[]) => {
    if (message.act === 'newconn') passed.set(message.seq!, rest[0] as ConnectionHandle);
    return send(message, ...rest);
  };
  child.on('internalMessage', ({ ack }: ClusterMessage) => void passed.delete(ack!));
  worker.once('exit', () => {
    for (const connection of passed.values()) connection.close();
  });
}
