import { Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { checkKey, currentKey, sendKey } from './api.ts';
import { Dialog } from './dialog.tsx';

/** Asks for the key that requests are sent with. */
export function KeyDialog() {
  const client = useQueryClient();
  const [isOpen, setOpen] = useState(false);
  const [hasKey, setHasKey] = useState(currentKey() !== null);
  const [problem, setProblem] = useState<string | null>(null);

  const change = (key: string | null) => {
    sendKey(key);
    setHasKey(key !== null);
    setOpen(false);
    // A key can select another lens, and permits more.
    void client.resetQueries();
  };

  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const key = String(new FormData(event.currentTarget).get('key')).trim();
    setProblem(null);
    try {
      await checkKey(key);
      change(key);
    } catch (error) {
      setProblem((error as Error).message);
    }
  };

  const close = () => {
    setProblem(null);
    setOpen(false);
  };

  return (
    <>
      <Button onClick={() => setOpen(true)}>{hasKey ? 'API key: set' : 'API key'}</Button>
      <Dialog opened={isOpen} onClose={close} title="API key">
        <form onSubmit={(event) => void submit(event)}>
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
              error={problem && <span role="alert">{problem}</span>}
            />
            <Group gap="xs">
              <Button type="submit" variant="filled">
                Use key
              </Button>
              {hasKey && <Button onClick={() => change(null)}>Forget key</Button>}
              <Button onClick={close}>Cancel</Button>
            </Group>
          </Stack>
        </form>
      </Dialog>
    </>
  );
}
