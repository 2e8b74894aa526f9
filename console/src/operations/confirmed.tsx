import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, type ReactNode, useId, useRef } from 'react';
import { Failure } from '../loading.tsx';

/** A button that opens a dialog with what will happen, and does it once it is confirmed. */
export function Confirmed<T>(props: {
  /** On the button; "…" is added. */
  label: string;
  /** Its name for screen readers, if several buttons have the same label. */
  describes?: string;
  title: string;
  /** On the button that confirms. */
  verb: string;
  children: ReactNode;
  act: (form: FormData) => Promise<T>;
  onDone?: (result: T) => void;
  /** What the dialog shows after it is done. Absent: it closes. */
  outcome?: (result: T) => ReactNode;
}) {
  const { label, describes, title, verb, children, act, onDone, outcome } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  const client = useQueryClient();
  const titleId = useId();
  const change = useMutation({
    mutationFn: act,
    // An answer may contain a secret.
    gcTime: 0,
    onSuccess: (result) => {
      void client.invalidateQueries({ queryKey: ['operations'] });
      onDone?.(result);
      if (!outcome) dialog.current!.close();
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    change.mutate(new FormData(event.currentTarget));
  };
  return (
    <>
      <button
        type="button"
        {...(describes !== undefined && { 'aria-label': `${label} ${describes}` })}
        onClick={() => dialog.current!.showModal()}
      >
        {label}…
      </button>
      <dialog
        ref={dialog}
        aria-labelledby={titleId}
        // Under way, it can no longer be cancelled.
        closedby={change.isPending ? 'none' : 'closerequest'}
        onClose={() => change.reset()}
      >
        <h2 id={titleId}>{title}</h2>
        {change.isSuccess && outcome ? (
          <>
            {outcome(change.data)}
            <p className="actions">
              <button type="button" onClick={() => dialog.current!.close()}>
                Close
              </button>
            </p>
          </>
        ) : (
          <form onSubmit={submit}>
            {children}
            {change.error && <Failure error={change.error} />}
            <p className="actions">
              <button type="submit" className="primary" disabled={change.isPending}>
                {verb}
              </button>
              <button type="button" disabled={change.isPending} onClick={() => dialog.current!.close()}>
                Cancel
              </button>
            </p>
          </form>
        )}
      </dialog>
    </>
  );
}
