import { Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { checkKey, currentKey, sendKey } from './api.ts';
import { Dialog } from './dialog.tsx';
import { client } from './queries.ts';

/** Asks for the key that requests are sent with. */
export function KeyDialog() {
  const [isOpen, setOpen] = useState(false);
  const use = useMutation({
    mutationFn: async (key: string | null) => {
      if (key !== null) await checkKey(key);
      sendKey(key);
    },
    onSuccess: () => {
      close();
      // A key can select another lens, and permits more.
      void client.resetQueries();
    },
  });
  const close = () => {
    use.reset();
    setOpen(false);
  };
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    use.mutate(String(new FormData(event.currentTarget).get('key')).trim());
  };
  const hasKey = currentKey() !== null;
  return (
    <>
      <Button onClick={() => setOpen(true)}>{hasKey ? 'API key: set' : 'API key'}</Button>
      <Dialog opened={isOpen} onClose={close} title="API key">
        <form onSubmit={submit}>
          <Stack gap="sm">
            <Text size="sm">
              Requests are sent with this key. It stays in this tab and is forgotten when the tab is closed.
            </Text>
            <TextInput
              label="Key"
              name="key"
              type="password"
              required
              withAsterisk={false}
              autoComplete="off"
              data-autofocus
              error={use.error && <span role="alert">{use.error.message}</span>}
            />
            <Group gap="xs">
              <Button type="submit" variant="filled">
                Use key
              </Button>
              {hasKey && <Button onClick={() => use.mutate(null)}>Forget key</Button>}
              <Button onClick={close}>Cancel</Button>
            </Group>
          </Stack>
        </form>
      </Dialog>
    </>
  );
}
