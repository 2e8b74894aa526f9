import { Anchor, Button, Group, Stack, Text, Title } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { errorsOf, type FieldError, post } from '../api.ts';
import { counted } from '../format.tsx';
import { Failure } from '../loading.tsx';
import { Note } from '../panel.tsx';
import { hrefOf } from '../place.ts';
import { client } from '../queries.ts';
import { DraftEditor } from './draft-editor.tsx';
import { faultsOf, isObject, NEW_VP, parsed, toText, useStoredText, valueAt } from './draft.ts';
import { DryRun } from './dry-run.tsx';
import { type Policy, VP_PATH } from './policies.ts';

/** A policy that is not stored yet: edited, tried, and then created. */
export function DraftView() {
  const [text, setText] = useStoredText('vp', () => toText(NEW_VP));
  const [refusedTry, setRefusedTry] = useState<readonly FieldError[]>([]);
  const draft = parsed(text);
  const create = useMutation({
    mutationFn: () => post<Policy>(VP_PATH, 'value' in draft ? draft.value : null),
    onSuccess: ({ policy_id }) => {
      void client.invalidateQueries({ queryKey: ['lab', 'vps'] });
      window.location.hash = hrefOf('lab', policy_id);
    },
  });
  const edit = (next: string) => {
    create.reset();
    setRefusedTry([]);
    setText(next);
  };
  const faults = 'value' in draft ? faultsOf(draft.value) : [];
  // What nobody has filled in yet is not wrong before the policy is created.
  const isTold = ({ pointer }: FieldError) =>
    create.isError || !('value' in draft) || valueAt(draft.value, pointer) !== '';
  return (
    <Stack>
      <Title order={1}>Draft of a validation policy</Title>
      <Group gap="xs">
        <Anchor href={hrefOf('lab')}>All policies</Anchor>
        <Button onClick={() => edit(toText(NEW_VP))}>Start over</Button>
      </Group>
      <Title order={2}>Policy</Title>
      <Note>The draft is kept in this tab. Form and JSON show the same draft.</Note>
      <DraftEditor
        text={text}
        onChange={edit}
        problems={distinct([...errorsOf(create.error), ...refusedTry, ...faults.filter(isTold)])}
      />
      <Group gap="xs">
        <Button variant="filled" disabled={'problem' in draft || create.isPending} onClick={() => create.mutate()}>
          Create the policy
        </Button>
        <Text span size="sm" c="dimmed" role="status" data-testid="faults">
          {'problem' in draft
            ? 'The JSON cannot be read.'
            : faults.length === 0
              ? 'The draft follows the rules.'
              : `${counted(faults.length, 'thing')} to correct.`}
        </Text>
      </Group>
      {create.error && <Failure error={create.error} retry={() => create.mutate()} />}
      <DryRun policy={'value' in draft && isObject(draft.value) ? draft.value : null} onRefused={setRefusedTry} />
    </Stack>
  );
}

/** One problem of each code at each place: the service finds what the page has found. */
function distinct(problems: readonly FieldError[]): FieldError[] {
  const seen = new Map(problems.toReversed().map((problem) => [problem.pointer, problem]));
  return [...seen.values()];
}
