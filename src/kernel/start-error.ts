/** The service or a command cannot start. The message is one sentence that tells the operator what to do. */
export class StartError extends Error {
  override readonly name = 'StartError';
}
