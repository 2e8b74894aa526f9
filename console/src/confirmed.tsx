import { Button, Group, Stack } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, type ReactNode, useState } from 'react';
import { Dialog } from './dialog.tsx';
import { Failure } from './loading.tsx';
import { client } from './queries.ts';

/** A button that opens a dialog with what will happen, and does it once it is confirmed. */
export function Confirmed<T>(props: {
  /** On the button; "…" is added. */
  label: string;
  /** Its name for screen readers, if several buttons have the same label. */
  describes?: string;
  isPermitted?: boolean;
  title: string;
  /** On the button that confirms. */
  verb: string;
  children: ReactNode;
  act: (form: FormData) => Promise<T>;
  onDone?: (result: T) => void;
  /** What the dialog shows after it is done. Absent: it closes. */
  outcome?: (result: T) => ReactNode;
}) {
  const { label, describes, isPermitted = true, title, verb, children, act, onDone, outcome } = props;
  const [isOpen, setOpen] = useState(false);
  const change = useMutation({
    mutationFn: act,
    // An answer may contain a secret.
    gcTime: 0,
    onSuccess: (result) => {
      onDone?.(result);
      if (!outcome) close();
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    change.mutate(new FormData(event.currentTarget));
  };
  const close = () => {
    setOpen(false);
    // Not before: what is loaded again may remove the dialog itself.
    void client.invalidateQueries();
    change.reset();
  };
  return (
    <>
      <Button aria-label={describes && `${label} ${describes}`} disabled={!isPermitted} onClick={() => setOpen(true)}>
        {label}…
      </Button>
      {/* Under way, it can no longer be cancelled. */}
      <Dialog title={title} opened={isOpen} onClose={close} isBusy={change.isPending}>
        {change.isSuccess && outcome ? (
          <>
            {outcome(change.data)}
            <Group>
              <Button onClick={close}>Close</Button>
            </Group>
          </>
        ) : (
          <form onSubmit={submit}>
            <Stack gap="sm">
              {children}
              {change.error && <Failure error={change.error} />}
              <Group gap="xs">
                <Button type="submit" variant="filled" disabled={change.isPending}>
                  {verb}
                </Button>
                <Button disabled={change.isPending} onClick={close}>
                  Cancel
                </Button>
              </Group>
            </Stack>
          </form>
        )}
      </Dialog>
    </>
  );
}
