import { memo, useCallback, useRef } from 'react';
import { type FieldError } from '../api.ts';
import { decimal } from '../format.tsx';
import { Head } from '../head.tsx';
import { Region } from '../region.tsx';
import { isConfiguration, isObject, parsed, toText, weightsOf, withValue } from './draft.ts';
import { Field, Problems } from './fields.tsx';
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
    <div className="columns">
      <section aria-labelledby="form-title">
        <h3 id="form-title">Form</h3>
        {'problem' in draft ? (
          <p>The form shows the draft again when the JSON can be read.</p>
        ) : (
          <DraftForm value={draft.value} problems={problems} onChange={change} />
        )}
      </section>
      <section aria-labelledby="json-title">
        <h3 id="json-title">JSON</h3>
        <JsonField text={text} onChange={onChange} label="The policy as JSON" />
      </section>
    </div>
  );
}

/** A text that must be JSON. */
export function JsonField(props: { text: string; onChange: (text: string) => void; label: string }) {
  const { text, onChange, label } = props;
  const draft = parsed(text);
  const problem = 'problem' in draft ? draft.problem : null;
  return (
    <>
      <textarea
        className="json"
        aria-label={label}
        aria-invalid={problem !== null}
        aria-describedby="json-problem"
        spellCheck={false}
        rows={Math.min(40, Math.max(12, text.split('\n').length))}
        value={text}
        onChange={({ target }) => onChange(target.value)}
      />
      <p id="json-problem" role="status" className="problem small">
        {problem !== null && `This is not JSON: ${problem}`}
      </p>
    </>
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
    <Field label={label} problems={problems} pointer={pointer}>
      {(tied) => (
        <input
          {...tied}
          value={shown === undefined ? '' : String(shown)}
          spellCheck={false}
          onChange={({ target }) => onChange(path, target.value)}
        />
      )}
    </Field>
  );
  return (
    <>
      <Problems problems={problems.filter(({ pointer }) => pointer === '')} />
      <div className="coordinates plain">
        {text('Id, with its version', '/policy_id', ['policy_id'], draft['policy_id'])}
        {text('Organization that owns it', '/tris_org', ['tris_org'], draft['tris_org'])}
        {text('Version', '/metadata/version', ['metadata', 'version'], metadata['version'])}
        <Field label="Declared total weight" problems={problems} pointer="/metadata/total_weight">
          {(tied) => (
            <input
              {...tied}
              type="number"
              step="0.01"
              value={typeof metadata['total_weight'] === 'number' ? metadata['total_weight'] : ''}
              onChange={({ target }) =>
                onChange(['metadata', 'total_weight'], target.value === '' ? null : Number(target.value))
              }
            />
          )}
        </Field>
      </div>
      <h4>Inputs</h4>
      <Problems problems={problems.filter(({ pointer }) => pointer === '/inputs')} />
      <datalist id="metrics">
        {DOCUMENTED_METRICS.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <ol className="inputs">
        {inputs.map((input, i) => (
          // Inputs have no id. Their index is enough as a key: all that they show is in the draft.
          // oxlint-disable-next-line
          <InputRow key={i} index={i} input={input} problems={inputProblems(problems, i)} onChange={onChange} />
        ))}
      </ol>
      <p>
        <button
          type="button"
          onClick={() => onChange(['inputs', inputs.length], { metric: '', criticality: 'Moderate', weight: 0.07 })}
        >
          Add an input
        </button>
      </p>
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
    <li>
      <Field label={`Metric ${index + 1}`} problems={problems} pointer={`${at}/metric`}>
        {(tied) => (
          <input
            {...tied}
            value={String(input['metric'] ?? '')}
            list="metrics"
            spellCheck={false}
            onChange={({ target }) => onChange(['inputs', index, 'metric'], target.value)}
          />
        )}
      </Field>
      <Field
        label="Criticality and weight"
        // Choosing a criticality sets its weight, so what is wrong with either belongs here.
        problems={problems.map((problem) =>
          problem.pointer === `${at}/weight` ? { ...problem, pointer: `${at}/criticality` } : problem,
        )}
        pointer={`${at}/criticality`}
      >
        {(tied) => (
          <select
            {...tied}
            value={isKnown ? String(input['criticality']).replace(/^./, (first) => first.toUpperCase()) : ''}
            onChange={({ target }) => select(target.value)}
          >
            {!isKnown && <option value="">choose</option>}
            {Object.entries(HUNDREDTHS).map(([name, hundredths]) => (
              <option key={name} value={name}>
                {name}, {hundredths / 100}
              </option>
            ))}
          </select>
        )}
      </Field>
      <button
        type="button"
        aria-label={`Remove metric ${index + 1}`}
        onClick={() => onChange(['inputs', index], undefined)}
      >
        Remove
      </button>
    </li>
  );
}, isSameRow);

/** The sums of the weights by category, and in total. */
export function Weights({ draft }: { draft: unknown }) {
  const { total, byCategory } = weightsOf(draft);
  return (
    <Region label="Weights by category">
      <table>
        <Head columns={['Category', 'Share of the weights', 'Sum']} numbers={['Sum']} />
        <tbody>
          {CATEGORIES.filter((name) => byCategory.has(name)).map((name) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>
                <span className="bar" aria-hidden="true">
                  <span style={{ width: `${(100 * byCategory.get(name)!) / Math.max(total, 0.01)}%` }} />
                </span>
              </td>
              <td className="number">{decimal(byCategory.get(name)!)}</td>
            </tr>
          ))}
          <tr>
            <th scope="row">Total</th>
            <td className="small">
              {isConfiguration(total)
                ? 'can be promoted for the platform'
                : 'cannot be promoted for the platform, which takes 0.95 to 1.05'}
            </td>
            <td className="number" data-testid="total-weight">
              {decimal(total)}
            </td>
          </tr>
        </tbody>
      </table>
    </Region>
  );
}
