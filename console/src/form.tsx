import { Button, Checkbox, Code, Fieldset, Stack, Text, TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import type { ComponentProps, ReactNode } from 'react';
import { Failure } from './loading.tsx';
import { client } from './queries.ts';

/** A field for an id, a code or an address: not for prose. */
export const Field = (props: ComponentProps<typeof TextInput>) => (
  <TextInput withAsterisk={false} autoComplete="off" spellCheck={false} {...props} />
);

/** A field for a number; null: for none. */
export function NumberField(
  props: Omit<ComponentProps<typeof TextInput>, 'value' | 'onChange'> & {
    value: unknown;
    onChange: (value: number | null) => void;
  },
) {
  const { value, onChange, ...rest } = props;
  return (
    <TextInput
      type="number"
      value={typeof value === 'number' ? value : ''}
      onChange={({ target }) => onChange(target.value === '' ? null : Number(target.value))}
      {...rest}
    />
  );
}

/** What was typed into a field; undefined for nothing. */
export function typed(form: FormData, name: string): string | undefined {
  const text = String(form.get(name) ?? '').trim();
  return text === '' ? undefined : text;
}

/** Several of some values. */
export function Choices(props: {
  legend: string;
  name: string;
  values: readonly (string | readonly [value: string, description: string])[];
  chosen?: readonly string[];
  onChange?: (values: string[]) => void;
}) {
  const { legend, name, values, chosen = [], onChange } = props;
  return (
    <Fieldset legend={legend}>
      <Stack gap="xs">
        {values.map((entry) => {
          const [value, description] = typeof entry === 'string' ? [entry, undefined] : entry;
          return (
            <Checkbox
              key={value}
              name={name}
              value={value}
              label={value}
              description={description}
              defaultChecked={chosen.includes(value)}
              onChange={({ currentTarget: { form } }) => onChange?.(new FormData(form!).getAll(name).map(String))}
            />
          );
        })}
      </Stack>
    </Fieldset>
  );
}

/** A secret that nobody can see again. */
export function Secret({ children, value }: { children: ReactNode; value: string }) {
  return (
    <Stack gap="sm" role="status" align="flex-start">
      <Text size="sm">{children} It is shown only now:</Text>
      <Code data-testid="secret">{value}</Code>
      {/* Absent on a page without https. */}
      {navigator.clipboard && <Button onClick={() => void navigator.clipboard.writeText(value)}>Copy</Button>}
    </Stack>
  );
}

/** A button that does something at once, and says why it could not. */
export function Act<T>(props: {
  label: string;
  /** What it is done to, for screen readers, if several buttons have the same label. */
  describes?: string;
  isPermitted?: boolean;
  act: () => Promise<T>;
  onDone?: (result: T) => void;
  outcome?: (result: T) => ReactNode;
}) {
  const { label, describes, isPermitted = true, act, onDone, outcome } = props;
  const change = useMutation({
    mutationFn: act,
    onSuccess: (result) => {
      void client.invalidateQueries();
      onDone?.(result);
    },
  });
  return (
    <>
      <Button
        aria-label={describes && `${label} ${describes}`}
        disabled={!isPermitted || change.isPending}
        onClick={() => change.mutate()}
      >
        {label}
      </Button>
      {change.data !== undefined && outcome && (
        <Text size="sm" role="status">
          {outcome(change.data)}
        </Text>
      )}
      {change.error && <Failure error={change.error} />}
    </>
  );
}
