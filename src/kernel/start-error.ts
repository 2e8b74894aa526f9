/** The service or a command cannot start. The message tells the operator in one sentence what to do. */
export class StartError extends Error {
  override readonly name = 'StartError';
}
