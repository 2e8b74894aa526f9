import { Badge, Group, NativeSelect, Stack, Text } from '@mantine/core';
import { useRef } from 'react';
import { ApiError, post, remove, type Score, type Schemas } from '../api.ts';
import { Confirmed } from '../confirmed.tsx';
import { Field, typed } from '../form.tsx';
import { Time } from '../format.tsx';
import { useScore } from './queries.ts';
import { Needs, useMay, useMe } from '../lab/needs.tsx';
import { GRANTABLE } from '../lab/rules.ts';
import { Loaded } from '../loading.tsx';
import { Note, Panel } from '../panel.tsx';
import { Rows } from '../table.tsx';

type Verification = Score['verification'][number];

/** The BAD status and the verifications of an identity now, and their change. */
export function Standing({ trisId }: { trisId: string }) {
  const query = useScore(trisId, {});
  // Something can be stated about an identity of which nothing is known yet.
  const isUnknown = query.error instanceof ApiError && query.error.code === 'identity_not_found';
  const panels = ({ bad_status, verification }: Pick<Score, 'bad_status' | 'verification'>) => (
    <Stack>
      <BadStatus trisId={trisId} status={bad_status} />
      <Verifications trisId={trisId} verifications={verification} />
    </Stack>
  );
  return isUnknown ? (
    <>
      <Note>Nothing is known about {trisId} yet.</Note>
      {panels({ bad_status: null, verification: [] })}
    </>
  ) : (
    <Loaded query={query} what="the identity">
      {panels}
    </Loaded>
  );
}

function BadStatus({ trisId, status }: { trisId: string; status: Score['bad_status'] }) {
  const mayOperate = useMay('ops');
  const path = `v1/identities/${encodeURIComponent(trisId)}/bad-status`;
  return (
    <Panel title="BAD status">
      {status === null ? (
        <Text size="sm">None is set: the score is computed.</Text>
      ) : (
        <Text size="sm">
          <strong>Level {status.level}</strong>, {status.reason_code}, since <Time value={status.since} />. It is the
          score.
        </Text>
      )}
      <Needs scope="ops" what="Setting and ending it" />
      {mayOperate && (
        <Group gap="xs">
          <Confirmed
            label={status === null ? 'Set a BAD status' : 'Change it'}
            title={`BAD status of ${trisId}`}
            verb="Set it"
            act={(form) => post(path, { level: Number(form.get('level')), reason_code: typed(form, 'reason_code') })}
          >
            <Text size="sm">
              The level becomes the score of {trisId}, with the rating BAD, until the status is ended. The person can
              dispute it.
            </Text>
            <NativeSelect
              label="Level"
              name="level"
              data={['6', '5', '4', '3', '2', { value: '1', label: '1, the worst' }]}
            />
            <Field
              label="Reason, as a code"
              description="No free text: the log is never edited."
              name="reason_code"
              required
              pattern="[a-z][a-z0-9_]*"
              placeholder="confirmed_fraud"
            />
          </Confirmed>
          {status !== null && (
            <Confirmed
              label="End it"
              title={`End the BAD status of ${trisId}`}
              verb="End the BAD status"
              act={() => remove(path)}
            >
              <Text size="sm">The score is computed again from the actions.</Text>
            </Confirmed>
          )}
        </Group>
      )}
    </Panel>
  );
}

function Verifications({ trisId, verifications }: { trisId: string; verifications: readonly Verification[] }) {
  const me = useMe().data;
  const mayState = useMay('identity:write');
  const isOwn = me !== undefined && me.organization === trisId;
  const mayRevoke = ({ issuer }: Verification) =>
    mayState && (me!.organization === null || me!.organization === issuer);
  return (
    <Panel title="Verifications">
      <Rows
        caption="List of verifications"
        empty="None at this time."
        head={['Status', 'Issuer', 'Established by', 'Expires', 'Counts', ...(mayState ? ['Actions'] : [])]}
        rows={verifications.map((verification) => [
          <span key={`${verification.status} ${verification.issuer} ${verification.scheme}`}>
            {verification.status}
          </span>,
          verification.issuer,
          verification.scheme === 'operator' ? 'statement' : `proof: ${verification.scheme}`,
          verification.expires_at === null ? 'never' : <Time key="expires" value={verification.expires_at} />,
          <Badge key="counts" miw="max-content" color={verification.accredited ? 'green' : 'gray'}>
            {verification.accredited ? 'in every policy' : 'where its issuer is named'}
          </Badge>,
          mayRevoke(verification) && <Revoke key="revoke" trisId={trisId} {...verification} />,
        ])}
      />
      <Needs scope="identity:write" what="Granting and revoking a verification" />
      {mayState && isOwn && <Note>An organization grants itself nothing.</Note>}
      {mayState && !isOwn && (
        <Group>
          <Grant trisId={trisId} issuer={me!.organization} />
        </Group>
      )}
    </Panel>
  );
}

function Revoke({ trisId, status, issuer, scheme }: Verification & { trisId: string }) {
  return (
    <Confirmed
      label="Revoke"
      describes={`${status} by ${issuer}`}
      title={`Revoke ${status}`}
      verb="Revoke it"
      act={() =>
        remove(`v1/identities/${encodeURIComponent(trisId)}/verifications/${encodeURIComponent(status)}`, {
          issuer,
          scheme,
        })
      }
    >
      <Text size="sm">
        {trisId} no longer holds {status} by {issuer}. Access that needs it is denied from now on.
      </Text>
    </Confirmed>
  );
}

/** @param issuer null: the operators */
function Grant({ trisId, issuer }: { trisId: string; issuer: string | null }) {
  const hash = useRef<HTMLInputElement>(null);
  const digest = async (file: File | undefined) => {
    if (!file) return;
    const digested = new Uint8Array(await crypto.subtle.digest('SHA-256', await file.arrayBuffer()));
    hash.current!.value = Array.from(digested, (byte) => byte.toString(16).padStart(2, '0')).join('');
  };
  return (
    <Confirmed
      label="Grant a verification"
      title={`Grant ${trisId} a verification`}
      verb="Grant it"
      act={(form) => {
        const expires = typed(form, 'expires_at');
        return post<Schemas['GrantedVerificationDto']>(`v1/identities/${encodeURIComponent(trisId)}/verifications`, {
          status: form.get('status'),
          ...(expires !== undefined && { expires_at: new Date(expires).toISOString() }),
          evidence_hash: typed(form, 'evidence_hash'),
        });
      }}
    >
      {issuer !== null && (
        <Text size="sm">
          Granted by {issuer}. It counts in every policy if {issuer} is accredited for the status.
        </Text>
      )}
      <NativeSelect label="Status" name="status" data={GRANTABLE} />
      <Field label="Expires, if it does" name="expires_at" type="datetime-local" />
      <Field
        ref={hash}
        label="SHA-256 of the evidence, which you keep"
        name="evidence_hash"
        required
        pattern="[0-9a-f]{64}"
      />
      {/* Absent on a page without https. */}
      {crypto.subtle && (
        <Field
          label="Or its file"
          description="Its SHA-256 is computed here; the file is sent nowhere."
          type="file"
          onChange={({ target }) => void digest(target.files?.[0])}
        />
      )}
    </Confirmed>
  );
}
