import { Badge, Button, Code, Fieldset, Group, NativeSelect, TextInput, VisuallyHidden } from '@mantine/core';
import type { ReactNode } from 'react';
import type { FieldError, Schemas } from '../api.ts';
import { NumberField } from '../form.tsx';
import { RATINGS } from '../format.tsx';
import { isObject, withValue } from './draft.ts';
import { CATEGORY_NAMES } from './metrics.ts';
import { Problems } from './fields.tsx';
import {
  CONDITION_NAMES,
  type Kind,
  kindOf,
  KINDS,
  NEW_CONDITIONS,
  NEW_RULE,
  ofKind,
  partsOf,
  pointerTo,
  STATUSES,
  THRESHOLDS,
} from './rules.ts';

/** What a check says of one node of the rules. */
export type NodeOutcome = Schemas['RuleOutcomeDto'];

/** What is shown beside the nodes. Pointers are into the rules. */
export interface Marks {
  outcomes: ReadonlyMap<string, NodeOutcome>;
  problems: readonly FieldError[];
  /** Conditions that the suggested changes fulfil. */
  suggested: ReadonlySet<string>;
}

/** A rule and all rules in it, as a tree. */
export function RuleEditor(props: {
  rule: unknown;
  pointer: string;
  marks: Marks;
  onChange: (rule: unknown) => void;
  /** Absent for a rule that must be there. */
  onRemove?: (() => void) | undefined;
}) {
  const { rule, pointer, marks, onChange, onRemove } = props;
  const kind = kindOf(rule);
  const { at, parts } = partsOf(rule);
  const isList = kind !== 'conditions' && kind !== 'not';
  const where = pointer === '' ? 'the rules' : pointer;
  const own = kind === 'conditions' ? pointer : pointerTo(pointer, kind);
  return (
    <Fieldset variant="unstyled" className="rule" my="xs" py="xs" pl="sm">
      <VisuallyHidden component="legend">Rule at {where}</VisuallyHidden>
      <Group gap="xs">
        <NativeSelect
          aria-label={`Kind of ${where}`}
          size="xs"
          value={kind}
          onChange={({ target }) => onChange(ofKind(rule, target.value as Kind))}
          data={Object.entries(KINDS).map(([value, label]) => ({ value, label }))}
        />
        {kind === 'at_least' && isObject(rule) && (
          <NumberField
            size="xs"
            w="5rem"
            aria-label={`How many, at ${where}`}
            min={1}
            max={parts.length}
            value={rule['at_least']}
            onChange={(at_least) => onChange({ ...rule, at_least })}
          />
        )}
        <Outcome marks={marks} pointer={own} />
        <Button variant="subtle" aria-label={`Wrap ${where}`} onClick={() => onChange({ all: [rule] })}>
          Wrap
        </Button>
        {onRemove && (
          <Button variant="subtle" aria-label={`Remove ${where}`} onClick={onRemove}>
            Remove
          </Button>
        )}
      </Group>
      <Problems problems={marks.problems.filter((problem) => problem.pointer === pointer || problem.pointer === own)} />
      {kind === 'conditions' ? (
        <Conditions rule={isObject(rule) ? rule : {}} pointer={pointer} marks={marks} onChange={onChange} />
      ) : (
        <>
          {parts.map((part, i) => (
            <RuleEditor
              // Rules have no id. Their index is enough as a key: all that they show is in the draft.
              // oxlint-disable-next-line
              key={i}
              rule={part}
              pointer={isList ? pointerTo(pointer, at, i) : pointerTo(pointer, at)}
              marks={marks}
              onChange={(next) => onChange(withValue(rule, isList ? [at, i] : [at], next))}
              onRemove={isList && parts.length > 1 ? () => onChange(withValue(rule, [at, i], undefined)) : undefined}
            />
          ))}
          {isList && (
            <Button
              variant="subtle"
              aria-label={`Add a rule to ${where}`}
              onClick={() => onChange(withValue(rule, [at, parts.length], NEW_RULE))}
            >
              Add a rule
            </Button>
          )}
        </>
      )}
    </Fieldset>
  );
}

function Conditions(props: {
  rule: Record<string, unknown>;
  pointer: string;
  marks: Marks;
  onChange: (rule: unknown) => void;
}) {
  const { rule, pointer, marks, onChange } = props;
  const names = Object.keys(rule);
  const absent = Object.keys(NEW_CONDITIONS).filter((name) => !names.includes(name));
  const change = (path: readonly (string | number)[], value: unknown) => onChange(withValue(rule, path, value));
  const row = (path: readonly (string | number)[], controls: ReactNode, isLast: boolean) => {
    const at = pointerTo(pointer, ...path);
    return (
      <Group
        component="li"
        key={at}
        gap="xs"
        align="flex-end"
        py={4}
        {...(marks.outcomes.has(at) && { className: marks.outcomes.get(at)!.outcome })}
      >
        {controls}
        <Outcome marks={marks} pointer={at} />
        {(names.length > 1 || !isLast) && (
          <Button
            variant="subtle"
            aria-label={`Remove ${at}`}
            onClick={() => change(isLast ? path.slice(0, 1) : path, undefined)}
          >
            Remove
          </Button>
        )}
        <Problems
          problems={marks.problems.filter((problem) => problem.pointer === at || problem.pointer.startsWith(`${at}/`))}
        />
      </Group>
    );
  };
  return (
    <>
      <ul className="conditions plain">
        {names.flatMap((name) => {
          const value = rule[name];
          if (name === 'metrics' && isObject(value)) {
            const categories = Object.keys(value);
            return categories.map((category) =>
              row(
                [name, category],
                <Health
                  value={value}
                  category={category}
                  at={pointerTo(pointer, name, category)}
                  onChange={(next) => change([name], next)}
                />,
                categories.length === 1,
              ),
            );
          }
          if (name === 'verification' && Array.isArray(value)) {
            return value.map((entry: unknown, i) =>
              row(
                [name, i],
                <Verification
                  entry={entry}
                  at={pointerTo(pointer, name, i)}
                  onChange={(next) => change([name, i], next)}
                />,
                value.length === 1,
              ),
            );
          }
          return [row([name], <Simple name={name} value={value} onChange={(next) => change([name], next)} />, true)];
        })}
      </ul>
      <NativeSelect
        size="xs"
        maw="14rem"
        aria-label={`Add a condition to ${pointer === '' ? 'the rules' : pointer}`}
        value=""
        onChange={({ target }) => {
          const name = target.value;
          if (name === 'metrics' && isObject(rule[name])) {
            const next = CATEGORY_NAMES.find((category) => !(category in (rule[name] as object)));
            if (next) change([name, next], 0.5);
          } else if (name === 'verification' && Array.isArray(rule[name])) {
            change(
              [name, rule[name].length],
              STATUSES.find((status) => !(rule[name] as unknown[]).includes(status)),
            );
          } else change([name], NEW_CONDITIONS[name]);
        }}
        data={[
          { value: '', label: 'Add a condition…' },
          ...[...new Set([...absent, 'metrics', 'verification'])].map((name) => ({
            value: name,
            label: CONDITION_NAMES[name]!,
          })),
        ]}
      />
    </>
  );
}

function Simple({ name, value, onChange }: { name: string; value: unknown; onChange: (value: unknown) => void }) {
  const threshold = THRESHOLDS[name];
  if (threshold) {
    return (
      <NumberField
        label={threshold.label}
        size="xs"
        min={0}
        max={threshold.max}
        step={threshold.step}
        value={value}
        onChange={onChange}
      />
    );
  }
  if (name === 'rating_min') {
    const isKnown = RATINGS.some(([rating]) => rating === value);
    return (
      <NativeSelect
        label="Rating at least"
        size="xs"
        value={isKnown ? String(value) : ''}
        onChange={({ target }) => onChange(target.value)}
        data={[...(isKnown ? [] : [{ value: '', label: 'choose' }]), ...RATINGS.map(([rating]) => rating)]}
      />
    );
  }
  return (
    <span>
      <Code>{name}</Code> is not a condition that this editor knows.
    </span>
  );
}

function Health(props: {
  value: Record<string, unknown>;
  category: string;
  at: string;
  onChange: (value: unknown) => void;
}) {
  const { value, category, at, onChange } = props;
  const rename = (next: string) =>
    onChange(
      Object.fromEntries(Object.entries(value).map(([name, least]) => [name === category ? next : name, least])),
    );
  return (
    <>
      <NativeSelect
        label="Health of"
        size="xs"
        value={category}
        onChange={({ target }) => rename(target.value)}
        data={[...new Set([...CATEGORY_NAMES, category])].filter((name) => name === category || !(name in value))}
      />
      <NumberField
        size="xs"
        w="5rem"
        aria-label={`Least health, at ${at}`}
        min={0}
        max={1}
        step={0.01}
        value={value[category]}
        onChange={(least) => onChange({ ...value, [category]: least })}
      />
    </>
  );
}

/** A status, or a status with the issuers and schemes that count. */
function Verification({ entry, at, onChange }: { entry: unknown; at: string; onChange: (value: unknown) => void }) {
  const named = isObject(entry) ? entry : { status: entry };
  const names = (list: unknown) => (Array.isArray(list) ? list.join(' ') : '');
  const change = (field: string, text: string) => {
    const list = text.split(/[\s,]+/).filter((name) => name !== '');
    const next = withValue(named, [field], list.length === 0 ? undefined : list) as Record<string, unknown>;
    onChange(Object.keys(next).length === 1 ? next['status'] : next);
  };
  return (
    <>
      <NativeSelect
        label="Verification"
        size="xs"
        value={String(named['status'])}
        onChange={({ target }) => onChange(isObject(entry) ? { ...entry, status: target.value } : target.value)}
        data={[...new Set([...STATUSES, String(named['status'])])]}
      />
      {named['status'] !== STATUSES.at(-1) &&
        (['issuers', 'schemes'] as const).map((field) => (
          // Uncontrolled: a space at the end of a list is not in the draft.
          <TextInput
            size="xs"
            key={`${field} ${names(named[field]) === '' ? 'none' : 'some'}`}
            aria-label={`Only these ${field}, at ${at}`}
            placeholder={field === 'issuers' ? 'any issuer' : 'any scheme'}
            defaultValue={names(named[field])}
            spellCheck={false}
            onBlur={({ target }) => change(field, target.value)}
          />
        ))}
    </>
  );
}

function Outcome({ marks, pointer }: { marks: Marks; pointer: string }) {
  const node = marks.outcomes.get(pointer);
  if (!node) return null;
  const { outcome, actual } = node;
  return (
    <Badge className={`outcome ${outcome}`} color={outcome === 'met' ? 'green' : outcome === 'failed' ? 'red' : 'gray'}>
      {outcome}
      {outcome !== 'met' && typeof actual === 'number' && ` (${actual})`}
      {outcome !== 'met' && typeof actual === 'string' && ` (${actual})`}
      {marks.suggested.has(pointer) && ', suggested to change'}
    </Badge>
  );
}
