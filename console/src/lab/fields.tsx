import { type ReactNode, useId } from 'react';
import type { FieldError } from '../api.ts';

/** A control with its label, and what is wrong with its value below it. */
export function Field(props: {
  label: string;
  problems: readonly FieldError[];
  /** RFC 6901: what of `problems` belongs to the field. */
  pointer: string;
  /** The control, with the attributes that connect it to its problems. */
  children: (tied: { 'aria-invalid': boolean; 'aria-describedby': string | undefined }) => ReactNode;
}) {
  const { label, problems, pointer, children } = props;
  const id = useId();
  const own = problems.filter((problem) => problem.pointer === pointer);
  const tied = { 'aria-invalid': own.length > 0, 'aria-describedby': own.length > 0 ? id : undefined };
  return (
    <div className="field">
      <label>
        {label}
        {children(tied)}
      </label>
      <Problems id={id} problems={own} />
    </div>
  );
}

export function Problems({ id, problems }: { id?: string; problems: readonly FieldError[] }) {
  if (problems.length === 0) return null;
  return (
    <span id={id} className="problem small">
      {problems.map(({ code, message }) => (
        <span key={`${code} ${message}`}>{message} </span>
      ))}
    </span>
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
