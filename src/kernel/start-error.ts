/** Why the service or a command cannot start, in one sentence for the operator, who can do something about it. */
export class StartError extends Error {
  override readonly name = 'StartError';
}
