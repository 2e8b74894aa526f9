import { Modal, Stack } from '@mantine/core';
import type { ReactNode } from 'react';

/** A dialog, which only Escape and its own buttons close; while it is busy, nothing does. */
export function Dialog(props: {
  title: string;
  opened: boolean;
  onClose: () => void;
  isBusy?: boolean;
  children: ReactNode;
}) {
  const { title, opened, onClose, isBusy = false, children } = props;
  return (
    <Modal.Root
      opened={opened}
      onClose={onClose}
      closeOnEscape={!isBusy}
      closeOnClickOutside={false}
      // It would make a style element.
      lockScroll={false}
      transitionProps={{ duration: 0 }}
    >
      <Modal.Overlay />
      <Modal.Content>
        <Modal.Body p="lg">
          <Stack gap="sm">
            <Modal.Title fz="lg" fw={600}>
              {title}
            </Modal.Title>
            {children}
          </Stack>
        </Modal.Body>
      </Modal.Content>
    </Modal.Root>
  );
}
