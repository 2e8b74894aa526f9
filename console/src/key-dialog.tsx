import { useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useRef, useState } from 'react';
import { ApiError, checkKey, currentKey, sendKey } from './api.ts';

/** Asks for the key that requests are sent with. */
export function KeyDialog() {
  const client = useQueryClient();
  const dialog = useRef<HTMLDialogElement>(null);
  const [hasKey, setHasKey] = useState(currentKey() !== null);
  const [problem, setProblem] = useState<string | null>(null);

  const change = (key: string | null) => {
    sendKey(key);
    setHasKey(key !== null);
    dialog.current!.close();
    // A key can select another lens, and permits more.
    void client.resetQueries();
  };

  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    const key = String(new FormData(form).get('key')).trim();
    setProblem(null);
    try {
      await checkKey(key);
      form.reset();
      change(key);
    } catch (error) {
      setProblem((error as ApiError).message);
    }
  };

  return (
    <>
      <button type="button" onClick={() => dialog.current!.showModal()}>
        {hasKey ? 'API key: set' : 'API key'}
      </button>
      <dialog ref={dialog} aria-labelledby="key-title" onClose={() => setProblem(null)}>
        <h2 id="key-title">API key</h2>
        <p>Requests are sent with this key. It stays in this tab and is forgotten when the tab is closed.</p>
        <form onSubmit={(event) => void submit(event)}>
          <label>
            Key
            <input
              name="key"
              type="password"
              required
              autoComplete="off"
              aria-invalid={problem !== null}
              aria-describedby="key-problem"
            />
          </label>
          <p id="key-problem" role="alert" className="problem">
            {problem}
          </p>
          <p className="actions">
            <button type="submit" className="primary">
              Use key
            </button>
            {hasKey && (
              <button type="button" onClick={() => change(null)}>
                Forget key
              </button>
            )}
            <button type="button" onClick={() => dialog.current!.close()}>
              Cancel
            </button>
          </p>
        </form>
      </dialog>
    </>
  );
}
