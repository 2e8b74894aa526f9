import { Box, Group, Paper, Text, TextInput, VisuallyHidden } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type FormEvent, type KeyboardEvent, useEffect, useId, useState } from 'react';
import { currentKey, get, post, type Schemas } from '../api.ts';
import { Rating } from '../format.tsx';
import { hrefOf } from '../place.ts';

const WALLET = /^0x[0-9a-f]{40}$/i;
const WHOLE_ID = /^(?:tris[@:]|did:)/;
const SHOWN = 8;
/** What is typed is looked up when it rests. */
const REST_MS = 120;

/** A wallet is looked up as the identity that it founded. */
export function trisIdOf(text: string): string {
  const trimmed = text.trim();
  return WALLET.test(trimmed) ? `tris:${trimmed.toLowerCase()}` : trimmed;
}

interface Option {
  tris_id: string;
  platform_id: string | null;
  rating: string | undefined;
}

/** The identities that the text finds, with their ratings. A key may ask; without one there are none. */
function useOptions(text: string): readonly Option[] {
  const [rested, setRested] = useState('');
  useEffect(() => {
    const timer = setTimeout(() => setRested(text.trim()), REST_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const { data } = useQuery({
    queryKey: ['find', rested],
    queryFn: async ({ signal }): Promise<Option[]> => {
      const { identities } = await get<Schemas['IdentitiesDto']>(
        'v1/identities',
        { prefix: rested, limit: SHOWN },
        signal,
      );
      if (identities.length === 0) return [];
      const tris_ids = [...new Set(identities.map(({ tris_id }) => tris_id))];
      const { results } = await post<Schemas['ScoreBatchResultDto']>('v1/disc/score/batch', { tris_ids }, signal);
      const ratings = new Map(tris_ids.map((id, i) => [id, results[i]?.data?.score_rating]));
      return identities.map((found) => ({ ...found, rating: ratings.get(found.tris_id) }));
    },
    enabled: rested !== '' && currentKey() !== null,
    placeholderData: (previous) => previous,
    retry: false,
  });
  return text.trim() === '' ? [] : (data ?? []);
}

/** A combobox (WAI-ARIA, list autocomplete with manual selection): what is typed is the beginning of an id, or of a part of it. */
export function SearchForm() {
  const id = useId();
  const [text, setText] = useState('');
  const [active, setActive] = useState(-1);
  const [isOpen, setOpen] = useState(false);
  const options = useOptions(text);
  const isShown = isOpen && options.length > 0;
  const chosen = isShown ? options[active] : undefined;
  const go = (trisId: string) => {
    window.location.hash = hrefOf('identity', trisId);
    setText('');
    setOpen(false);
    setActive(-1);
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (chosen) return go(chosen.tris_id);
    const typed = trisIdOf(text);
    if (typed !== '') go(WHOLE_ID.test(typed) ? typed : (options[0]?.tris_id ?? typed));
  };
  const move = (event: KeyboardEvent) => {
    const steps: Record<string, number> = {
      ArrowDown: active + 1,
      ArrowUp: active < 0 ? options.length - 1 : active - 1,
    };
    if (event.key === 'Escape' && isShown) {
      event.preventDefault();
      setActive(-1);
      return setOpen(false);
    }
    const step = steps[event.key];
    if (step === undefined || options.length === 0) return;
    event.preventDefault();
    setOpen(true);
    setActive(step >= options.length ? -1 : step);
  };
  return (
    <Box component="form" role="search" flex="1 1 10rem" pos="relative" onSubmit={submit}>
      <TextInput
        id={id}
        aria-label="Find an identity"
        role="combobox"
        aria-autocomplete="list"
        aria-expanded={isShown}
        aria-controls={`${id}-list`}
        aria-activedescendant={chosen && `${id}-${active}`}
        autoComplete="off"
        spellCheck={false}
        maxLength={128}
        placeholder="Id, wallet or platform"
        value={text}
        onChange={({ target }) => {
          setText(target.value);
          setActive(-1);
          setOpen(true);
        }}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onKeyDown={move}
      />
      <Paper
        component="ul"
        id={`${id}-list`}
        role="listbox"
        aria-label="Identities found"
        display={isShown ? 'block' : 'none'}
        withBorder
        shadow="md"
        pos="absolute"
        top="calc(100% + 4px)"
        miw="min(22rem, calc(100vw - 2rem))"
        w="100%"
        p={4}
        m={0}
        className="plain"
        style={{ zIndex: 4 }}
      >
        {options.map(({ tris_id, platform_id, rating }, i) => (
          <Group
            component="li"
            justify="space-between"
            wrap="nowrap"
            px="xs"
            py={6}
            bdrs="sm"
            {...(i === active && { bg: 'var(--mantine-color-indigo-light)' })}
            style={{ cursor: 'pointer', overflowWrap: 'anywhere' }}
            key={`${tris_id} ${platform_id}`}
            id={`${id}-${i}`}
            role="option"
            aria-selected={i === active}
            // The focus stays in the field.
            onPointerDown={(event) => event.preventDefault()}
            onClick={() => go(tris_id)}
            onPointerMove={() => setActive(i)}
          >
            <span>
              {tris_id}
              {platform_id !== null && (
                <Text span size="sm" c="dimmed">
                  {' '}
                  owns {platform_id}
                </Text>
              )}
            </span>
            {rating !== undefined && <Rating name={rating} />}
          </Group>
        ))}
      </Paper>
      <VisuallyHidden role="status">{isShown ? `${options.length} found` : ''}</VisuallyHidden>
    </Box>
  );
}
