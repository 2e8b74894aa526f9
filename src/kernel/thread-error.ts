/** Errors on their way from one thread to another, which keep their message and stack, but neither their class nor fields. */

type ErrorClass = { name: string; prototype: Error };

/** What a thread sends of an error. */
export interface SentError {
  error: Error;
  /** The name of the class that the receiver gives it; null: none of those that it knows. */
  of: string | null;
  fields: Record<string, unknown>;
}

/** @param known the classes that the receiver knows, too; their fields can be cloned */
export function sentError(error: Error, known: readonly ErrorClass[]): SentError {
  const of = known.find(({ prototype }) => prototype.isPrototypeOf(error));
  return { error, of: of?.name ?? null, fields: of ? { ...error } : {} };
}

/** The error as it was thrown. @param known the classes that the sender knows, too */
export function receivedError({ error, of, fields }: SentError, known: readonly ErrorClass[]): Error {
  const found = known.find(({ name }) => name === of);
  return found ? Object.assign(Object.setPrototypeOf(error, found.prototype) as Error, fields) : error;
}
