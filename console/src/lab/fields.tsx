import { Text } from '@mantine/core';
import type { FieldError } from '../api.ts';

/** What is wrong with the value at `pointer` (RFC 6901), for the `error` of its field. */
export function errorAt(problems: readonly FieldError[], pointer: string): string | undefined {
  const own = problems.filter((problem) => problem.pointer === pointer);
  return own.length === 0 ? undefined : own.map(({ message }) => message).join(' ');
}

export function Problems({ problems }: { problems: readonly FieldError[] }) {
  if (problems.length === 0) return null;
  return (
    <Text size="sm" c="var(--mantine-color-error)">
      {problems.map(({ code, message }) => (
        <span key={`${code} ${message}`}>{message} </span>
      ))}
    </Text>
  );
}

/** TRIS ids in a text, separated by spaces, commas or lines, without duplicates. */
export function idsIn(text: string): string[] {
  return [...new Set(text.split(/[\s,;]+/).filter((id) => id !== ''))];
}

/** The errors about a part of the body, with pointers into that part. */
export function under(prefix: string, errors: readonly FieldError[]): FieldError[] {
  return errors
    .filter(({ pointer }) => pointer === prefix || pointer.startsWith(`${prefix}/`))
    .map((error) => ({ ...error, pointer: error.pointer.slice(prefix.length) }));
}
