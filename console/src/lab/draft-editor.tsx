import { Button, Group, NativeSelect, Progress, Stack, Table, Text, Textarea, TextInput, Title } from '@mantine/core';
import { memo, useCallback, useRef } from 'react';
import { type FieldError } from '../api.ts';
import { NumberField } from '../form.tsx';
import { decimal } from '../format.tsx';
import { Panel } from '../panel.tsx';
import { DataTable } from '../table.tsx';
import { isConfiguration, isObject, parsed, toText, weightsOf, withValue } from './draft.ts';
import { errorAt, Problems } from './fields.tsx';
import { CATEGORIES, DOCUMENTED_METRICS, HUNDREDTHS, hundredthsOf } from './metrics.ts';

type Path = readonly (string | number)[];

/** A policy as a form and as JSON, side by side. Both show the same text, and each changes it. */
export function DraftEditor(props: {
  text: string;
  onChange: (text: string) => void;
  /** What is wrong, with pointers into the policy. */
  problems: readonly FieldError[];
}) {
  const { text, onChange, problems } = props;
  const draft = parsed(text);
  const latest = useRef({ draft, onChange });
  latest.current = { draft, onChange };
  // Always the same, so that a row of a long list is drawn again only when it changes.
  const change = useCallback((path: Path, value: unknown) => {
    const { draft: now, onChange: changed } = latest.current;
    if ('value' in now) changed(toText(withValue(now.value, path, value)));
  }, []);
  return (
    <div className="grid columns">
      <Panel title="Form" order={3}>
        {'problem' in draft ? (
          <Text>The form shows the draft again when the JSON can be read.</Text>
        ) : (
          <DraftForm value={draft.value} problems={problems} onChange={change} />
        )}
      </Panel>
      <Panel title="JSON" order={3}>
        <JsonField text={text} onChange={onChange} label="The policy as JSON" />
      </Panel>
    </div>
  );
}

/** A text that must be JSON. */
export function JsonField(props: { text: string; onChange: (text: string) => void; label: string }) {
  const { text, onChange, label } = props;
  const draft = parsed(text);
  return (
    <Textarea
      styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
      aria-label={label}
      spellCheck={false}
      rows={Math.min(40, Math.max(12, text.split('\n').length))}
      value={text}
      error={'problem' in draft && <span role="status">This is not JSON: {draft.problem}</span>}
      onChange={({ target }) => onChange(target.value)}
    />
  );
}

function DraftForm(props: {
  value: unknown;
  problems: readonly FieldError[];
  onChange: (path: Path, value: unknown) => void;
}) {
  const { value, problems, onChange } = props;
  const draft = isObject(value) ? value : {};
  const metadata = isObject(draft['metadata']) ? draft['metadata'] : {};
  const inputs = Array.isArray(draft['inputs']) ? (draft['inputs'] as unknown[]) : [];
  const text = (label: string, pointer: string, path: Path, shown: unknown) => (
    <TextInput
      label={label}
      error={errorAt(problems, pointer)}
      value={shown === undefined ? '' : String(shown)}
      spellCheck={false}
      onChange={({ target }) => onChange(path, target.value)}
    />
  );
  return (
    <>
      <Problems problems={problems.filter(({ pointer }) => pointer === '')} />
      <div className="grid fields">
        {text('Id, with its version', '/policy_id', ['policy_id'], draft['policy_id'])}
        {text('Organization that owns it', '/tris_org', ['tris_org'], draft['tris_org'])}
        {text('Version', '/metadata/version', ['metadata', 'version'], metadata['version'])}
        <NumberField
          label="Declared total weight"
          error={errorAt(problems, '/metadata/total_weight')}
          step="0.01"
          value={metadata['total_weight']}
          onChange={(total) => onChange(['metadata', 'total_weight'], total)}
        />
      </div>
      <Title order={4}>Inputs</Title>
      <Problems problems={problems.filter(({ pointer }) => pointer === '/inputs')} />
      <datalist id="metrics">
        {DOCUMENTED_METRICS.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <Stack component="ol" gap="sm" p={0} m={0}>
        {inputs.map((input, i) => (
          // Inputs have no id. Their index is enough as a key: all that they show is in the draft.
          // oxlint-disable-next-line
          <InputRow key={i} index={i} input={input} problems={inputProblems(problems, i)} onChange={onChange} />
        ))}
      </Stack>
      <Text>
        <Button
          onClick={() => onChange(['inputs', inputs.length], { metric: '', criticality: 'Moderate', weight: 0.07 })}
        >
          Add an input
        </Button>
      </Text>
      <Weights draft={draft} />
    </>
  );
}

const inputProblems = (problems: readonly FieldError[], index: number): FieldError[] =>
  problems.filter(({ pointer }) => pointer.startsWith(`/inputs/${index}/`));

interface InputRowProps {
  index: number;
  input: unknown;
  problems: readonly FieldError[];
  onChange: (path: Path, value: unknown) => void;
}

const isSameRow = (a: InputRowProps, b: InputRowProps): boolean =>
  a.index === b.index && JSON.stringify([a.input, a.problems]) === JSON.stringify([b.input, b.problems]);

const InputRow = memo(function InputRow(props: InputRowProps) {
  const { index, problems, onChange } = props;
  const input = isObject(props.input) ? props.input : {};
  const at = `/inputs/${index}`;
  const isKnown = hundredthsOf(input['criticality']) !== undefined;
  const select = (criticality: string) =>
    onChange(['inputs', index], { ...input, criticality, weight: HUNDREDTHS[criticality]! / 100 });
  return (
    <Group component="li" gap="xs" align="flex-start">
      <TextInput
        label={`Metric ${index + 1}`}
        error={errorAt(problems, `${at}/metric`)}
        flex="1 1 14rem"
        value={String(input['metric'] ?? '')}
        list="metrics"
        spellCheck={false}
        onChange={({ target }) => onChange(['inputs', index, 'metric'], target.value)}
      />
      <NativeSelect
        label="Criticality and weight"
        // Choosing a criticality sets its weight, so what is wrong with either belongs here.
        error={errorAt(problems, `${at}/criticality`) ?? errorAt(problems, `${at}/weight`)}
        value={isKnown ? String(input['criticality']).replace(/^./, (first) => first.toUpperCase()) : ''}
        onChange={({ target }) => select(target.value)}
        data={[
          ...(isKnown ? [] : [{ value: '', label: 'choose' }]),
          ...Object.entries(HUNDREDTHS).map(([name, hundredths]) => ({
            value: name,
            label: `${name}, ${hundredths / 100}`,
          })),
        ]}
      />
      <Button
        size="sm"
        mt="1.5rem"
        aria-label={`Remove metric ${index + 1}`}
        onClick={() => onChange(['inputs', index], undefined)}
      >
        Remove
      </Button>
    </Group>
  );
}, isSameRow);

/** The sums of the weights by category, and in total. */
export function Weights({ draft }: { draft: unknown }) {
  const { total, byCategory } = weightsOf(draft);
  return (
    <DataTable label="Weights by category" columns={['Category', 'Share of the weights', 'Sum']} numbers={['Sum']}>
      {CATEGORIES.filter((name) => byCategory.has(name)).map((name) => (
        <Table.Tr key={name}>
          <Table.Th scope="row">{name}</Table.Th>
          <Table.Td>
            <Progress size="sm" value={(100 * byCategory.get(name)!) / Math.max(total, 0.01)} aria-hidden="true" />
          </Table.Td>
          <Table.Td ta="right">{decimal(byCategory.get(name)!)}</Table.Td>
        </Table.Tr>
      ))}
      <Table.Tr>
        <Table.Th scope="row">Total</Table.Th>
        <Table.Td fz="sm" c="dimmed">
          {isConfiguration(total)
            ? 'can be promoted for the platform'
            : 'cannot be promoted for the platform, which takes 0.95 to 1.05'}
        </Table.Td>
        <Table.Td ta="right" data-testid="total-weight">
          {decimal(total)}
        </Table.Td>
      </Table.Tr>
    </DataTable>
  );
}
