import { Badge } from '@mantine/core';
import type { ReactNode } from 'react';
import type { Schemas } from '../api.ts';
import { Paged } from '../paged.tsx';

export type Decision = Schemas['DecisionDto'];

/** The access decisions about an identity that the reader may see. */
export function DecisionsAbout(props: { trisId: string; children: (decisions: Decision[]) => ReactNode }) {
  const { trisId, children } = props;
  return (
    <Paged<Decision> path="v1/access/decisions" parameters={{ subject: trisId }} field="decisions" what="decisions">
      {children}
    </Paged>
  );
}

export function Outcome({ granted, revoked }: Decision) {
  return (
    <Badge color={granted ? 'green' : 'red'}>
      {granted ? (revoked ? 'granted, token revoked' : 'granted') : 'denied'}
    </Badge>
  );
}
