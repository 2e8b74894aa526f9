import { Alert, Anchor, Button, Group, List, NativeSelect, Stack, Text, TextInput, Title } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { errorsOf, type Schemas, post } from '../api.ts';
import { NumberField } from '../form.tsx';
import { count, decimal, score } from '../format.tsx';
import { hrefOf } from '../place.ts';
import { Note, Panel } from '../panel.tsx';
import { Failure } from '../loading.tsx';
import { client } from '../queries.ts';
import { JsonField } from './draft-editor.tsx';
import { isObject, parsed, toText, useStoredText, withValue } from './draft.ts';
import { errorAt, Problems, under } from './fields.tsx';
import { Needs } from './needs.tsx';
import { AP_PATH, type ListedAccessPolicy, usePolicies } from './policies.ts';
import { RuleEditor } from './rule-editor.tsx';

const REST_MS = 300;

const NEW_AP = {
  policy_id: 'AP_NEW_V1',
  rules: { all: [{ disc_min: 20 }, { any: [{ rating_min: 'Good' }, { verification: ['zk-KYH'] }] }] },
  ttl_seconds: 600,
  visibility: 'private',
};

type FactChange = Schemas['FactChangeDto'];

type DryRun = Schemas['DryRunDto'];

/** An access policy that is not stored yet: its rules as a tree, checked against a subject while they are edited. */
export function AccessView() {
  const [text, setText] = useStoredText('ap', () => toText(NEW_AP));
  const [subject, setSubject] = useStoredText('ap-subject', () => '');
  const read = parsed(text);
  const draft = 'value' in read && isObject(read.value) ? read.value : null;
  const create = useMutation({
    mutationFn: () => post<ListedAccessPolicy>(AP_PATH, draft),
    onSuccess: () => void client.invalidateQueries({ queryKey: ['lab', 'aps'] }),
  });
  const edit = (next: string) => {
    create.reset();
    setText(next);
  };
  const change = (path: readonly (string | number)[], value: unknown) => edit(toText(withValue(draft, path, value)));
  const check = useCheck(draft, subject.trim());
  const result = check.data?.results[0];
  const problems = errorsOf(create.error ?? check.error);
  const marks = {
    outcomes: new Map(check.isSuccess ? result?.nodes.map((node) => [node.pointer, node]) : []),
    problems: under('/rules', problems),
    suggested: new Set(check.isSuccess ? result?.how_to_pass.flatMap(({ pointers }) => pointers) : []),
  };
  return (
    <Stack>
      <Title order={1}>Draft of an access policy</Title>
      <Group gap="xs">
        <Anchor href={hrefOf('lab')}>All policies</Anchor>
        <Button onClick={() => edit(toText(NEW_AP))}>Start over</Button>
      </Group>
      <Panel title="Check">
        <Needs scope="policies:write" what="A check of rules" />
        <TextInput
          label="Subject to check the rules against"
          value={subject}
          placeholder="tris:…"
          maxLength={128}
          spellCheck={false}
          onChange={({ target }) => setSubject(target.value)}
        />
        <Problems problems={problems.filter(({ pointer }) => pointer.startsWith('/subjects'))} />
        <div role="status">
          {check.isSuccess && result && <Verdict result={result} lens={check.data.lens?.policy_id ?? null} />}
        </div>
        {check.error && !create.error && <Failure error={check.error} retry={() => void check.refetch()} />}
      </Panel>
      <Title order={2}>Policy</Title>
      <Note>The draft is kept in this tab. Rules and JSON show the same draft.</Note>
      <div className="grid columns">
        <Panel title="Rules" order={3}>
          {draft ? (
            <>
              <Settings draft={draft} problems={problems} onChange={change} />
              <RuleEditor
                rule={draft['rules']}
                pointer=""
                marks={marks}
                onChange={(rules) => change(['rules'], rules)}
              />
            </>
          ) : (
            <Text>The rules are shown again when the JSON can be read.</Text>
          )}
        </Panel>
        <Panel title="JSON" order={3}>
          <JsonField text={text} onChange={edit} label="The access policy as JSON" />
        </Panel>
      </div>
      <Group gap="xs">
        <Button variant="filled" disabled={draft === null || create.isPending} onClick={() => create.mutate()}>
          Create the policy
        </Button>
        <span role="status">
          {create.isSuccess && (
            <>
              {create.data.policy_id} is created. Its rules are {create.data.visibility}.
            </>
          )}
        </span>
      </Group>
      {create.error && <Failure error={create.error} retry={() => create.mutate()} />}
    </Stack>
  );
}

/** The rules as they are decided for the subject, as soon as the reader pauses. */
function useCheck(draft: Record<string, unknown> | null, subject: string) {
  const asked = JSON.stringify([draft?.['rules'], draft?.['vp'], subject]);
  const [rested, setRested] = useState(asked);
  useEffect(() => {
    const timer = setTimeout(() => setRested(asked), REST_MS);
    return () => clearTimeout(timer);
  }, [asked]);
  const [rules, vp, who] = JSON.parse(rested) as [unknown, unknown, string];
  return useQuery({
    queryKey: ['lab', 'check', rested],
    queryFn: ({ signal }) =>
      post<DryRun>(`${AP_PATH}/evaluate`, { rules, ...(vp != null && { vp }), subjects: [who] }, signal),
    enabled: who !== '' && rules != null,
    placeholderData: (previous) => previous,
  });
}

function Settings(props: {
  draft: Record<string, unknown>;
  problems: Parameters<typeof under>[1];
  onChange: (path: readonly string[], value: unknown) => void;
}) {
  const { draft, problems, onChange } = props;
  const policies = usePolicies();
  const vp = draft['vp'] == null ? '' : String(draft['vp']);
  const names = (policies.data ?? []).map(({ policy_id }) => policy_id);
  return (
    <div className="grid fields">
      <TextInput
        label="Id, with its version"
        error={errorAt(problems, '/policy_id')}
        value={String(draft['policy_id'] ?? '')}
        spellCheck={false}
        onChange={({ target }) => onChange(['policy_id'], target.value)}
      />
      <NumberField
        label="Lifetime of its tokens, seconds"
        error={errorAt(problems, '/ttl_seconds')}
        min={1}
        max={86_400}
        value={draft['ttl_seconds']}
        onChange={(seconds) => onChange(['ttl_seconds'], seconds ?? undefined)}
      />
      <NativeSelect
        label="Lens"
        error={errorAt(problems, '/vp')}
        value={vp}
        onChange={({ target }) => onChange(['vp'], target.value === '' ? undefined : target.value)}
        data={[
          { value: '', label: 'the owner’s, or the platform’s' },
          ...new Set([...names, ...(vp === '' ? [] : [vp])]),
        ]}
      />
      <NativeSelect
        label="Who may read the rules"
        error={errorAt(problems, '/visibility')}
        value={draft['visibility'] === 'public' ? 'public' : 'private'}
        onChange={({ target }) => onChange(['visibility'], target.value)}
        data={[
          { value: 'private', label: 'private: its owner and operators' },
          { value: 'public', label: 'public: everybody, with reasons of denials' },
        ]}
      />
    </div>
  );
}

function Verdict({ result, lens }: { result: DryRun['results'][number]; lens: string | null }) {
  const { subject_tris, granted, how_to_pass } = result;
  return (
    <Alert color={granted ? 'green' : 'yellow'} role="note">
      <Text>
        <strong>
          {subject_tris} {granted ? 'passes' : 'does not pass'}
        </strong>
        {result.score === null ? ': nothing is known about it.' : `, with a score of ${score(result.score)}`}
        {result.score !== null && ` through ${lens ?? 'the model’s own lens'}.`}
      </Text>
      {!granted && how_to_pass.length === 0 && <Text>No increase would be enough.</Text>}
      {how_to_pass.length > 0 && (
        <>
          <Text>A smallest set of changes that passes:</Text>
          <List size="sm">
            {how_to_pass.map((change) => (
              <List.Item key={change.fact}>{wordsOf(change)}</List.Item>
            ))}
          </List>
        </>
      )}
    </Alert>
  );
}

function wordsOf({ fact, required, actual, below, issuers, schemes }: FactChange): string {
  const by = [
    ...(issuers ? [`granted by ${issuers.join(' or ')}`] : []),
    ...(schemes ? [`by the scheme ${schemes.join(' or ')}`] : []),
  ].join(', ');
  if (fact === 'bad_status') return 'the BAD status is cleared';
  if (fact.startsWith('verification.')) {
    return `a verification ${fact.slice('verification.'.length)}${by === '' ? '' : `, ${by}`}`;
  }
  const format = fact === 'net_tct' || fact === 'actions' ? count : decimal;
  const from = typeof actual === 'number' ? `, now ${format(actual)}` : ', of which there is no evidence yet';
  return `${fact.replace('net_tct', 'net TCT').replace('.', ' of ')} of at least ${format(Number(required))}${from}${below === undefined ? '' : `; below ${format(below)}`}`;
}
