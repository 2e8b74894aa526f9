import { Anchor, Button, Code, Group, List, Stack, Text, Title } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useEffect, useState, useSyncExternalStore } from 'react';
import { currentSession, getText, signOut, watchSession } from '../api.ts';
import { Dialog } from '../dialog.tsx';
import { Act } from '../form.tsx';
import { linkTo, Rating, score, Time } from '../format.tsx';
import { DecisionsAbout, Outcome } from '../identity/decisions.tsx';
import { Disputes } from '../identity/disputes.tsx';
import { Contest } from '../identity/statement.tsx';
import { useScore } from '../identity/queries.ts';
import { useMe } from '../lab/needs.tsx';
import { Empty, Failure, Loaded } from '../loading.tsx';
import { Details, Note, Panel } from '../panel.tsx';
import { hrefOf } from '../place.ts';
import { client, useGet } from '../queries.ts';
import { Rows } from '../table.tsx';
import { type BrowserWallet, signIn, useWallets } from './wallets.ts';

/** What a person sees of themselves, signed in with their wallet. */
export function MeView() {
  const session = useSyncExternalStore(watchSession, currentSession);
  return (
    <Stack>
      <Title order={1}>My page</Title>
      {session === null ? (
        <SignIn />
      ) : session.tris_id === null ? (
        <SignIn wallet={session.wallet} />
      ) : (
        <Record trisId={session.tris_id} wallet={session.wallet} />
      )}
    </Stack>
  );
}

/** @param props.wallet that is signed in, but has no TRIS yet */
function SignIn({ wallet: signedIn }: { wallet?: string }) {
  const wallets = useWallets();
  const purpose = signedIn === undefined ? 'sign_in' : 'claim';
  const signing = useMutation({
    mutationFn: (wallet: BrowserWallet) => signIn(wallet, purpose),
    onSuccess: () => client.resetQueries(),
  });
  return (
    <Panel title={signedIn === undefined ? 'Sign in with a wallet' : 'This wallet has no TRIS yet'}>
      <Text>
        {signedIn === undefined
          ? 'See what is recorded about you, why you were denied, and contest what is wrong. The wallet signs a message; that costs nothing.'
          : `${signedIn} can be the first wallet of a TRIS of its own: the wallet signs a second message. If you have a TRIS, link the wallet there instead.`}
      </Text>
      {wallets.length === 0 && <Empty>No wallet announces itself in this browser. Install one, then reload.</Empty>}
      <Group>
        {wallets.map((wallet) => (
          <Button key={wallet.id} variant="filled" disabled={signing.isPending} onClick={() => signing.mutate(wallet)}>
            {signedIn === undefined ? `Sign in with ${wallet.name}` : `Claim a TRIS with ${wallet.name}`}
          </Button>
        ))}
        {signedIn !== undefined && <SignOut />}
      </Group>
      {signing.isPending && <Text role="status">Answer in your wallet…</Text>}
      {signing.error && <Failure error={signing.error} />}
    </Panel>
  );
}

function SignOut() {
  return <Act label="Sign out" act={() => signOut().finally(() => client.resetQueries())} />;
}

function Record({ trisId, wallet }: { trisId: string; wallet: string }) {
  const me = useMe();
  // What has happened since it was last shown.
  useEffect(() => void client.invalidateQueries(), []);
  const current = useScore(trisId, {});
  const page = (tab: string) => hrefOf('identity', trisId, new URLSearchParams({ tab }));
  return (
    <>
      <Panel title="Session">
        <Details
          rows={[
            ['TRIS', trisId],
            ['Wallet', <Code key="wallet">{wallet}</Code>],
          ]}
        />
        <Group>
          <Act label="Download all that is recorded about me" act={() => save('v1/me/export', `${trisId}.ndjson`)} />
          <SignOut />
        </Group>
      </Panel>
      <Panel title="Score">
        <Loaded query={current} what="your score">
          {(found) => (
            <>
              <Group gap="xs" align="baseline">
                <Text span fz="1.375rem" fw={600} className="numbers">
                  {score(found.score)}
                </Text>
                <span>of 100,</span>
                <Rating name={found.score_rating} />
              </Group>
              <Group>
                <Anchor href={page('why')}>What it consists of</Anchor>
                <Anchor href={page('events')}>Every statement about you, and how to contest it</Anchor>
              </Group>
            </>
          )}
        </Loaded>
      </Panel>
      <Panel title="Verifications and status">
        <Loaded query={me} what="your record">
          {({ verification = [], bad_status: bad }) => (
            <>
              {bad && (
                <Group>
                  <Text>
                    BAD status {bad.level} since <Time value={bad.since} />, reason <Code>{bad.reason_code}</Code>.
                  </Text>
                  <Contest what="the BAD status" about={{ bad_status: true }} />
                </Group>
              )}
              {verification.length === 0 && !bad && <Empty>None.</Empty>}
              {verification.map(({ status, issuer }) => (
                <Group key={`${status} ${issuer}`}>
                  <Text>
                    <strong>{status}</strong> by {issuer}
                  </Text>
                  <Contest what={`the verification ${status}`} about={{ verification: status, issuer }} />
                </Group>
              ))}
            </>
          )}
        </Loaded>
      </Panel>
      <OwnDecisions trisId={trisId} />
      <Disputes trisId={trisId} />
    </>
  );
}

function OwnDecisions({ trisId }: { trisId: string }) {
  const [jti, setJti] = useState<string | null>(null);
  return (
    <Panel title="Decisions about me">
      <DecisionsAbout trisId={trisId}>
        {(decisions) => (
          <Rows
            caption="Decisions"
            empty="Nobody has checked you against a policy."
            head={['Checked', 'Policy', 'Decision', 'Notice']}
            rows={decisions.map((decision) => [
              <Time key={decision.jti} value={decision.checked_at} />,
              linkTo('lab', decision.policy_id),
              <Outcome key="decision" {...decision} />,
              <Button
                key="notice"
                aria-label={`Why ${decision.policy_id} decided so`}
                onClick={() => setJti(decision.jti)}
              >
                Why
              </Button>,
            ])}
          />
        )}
      </DecisionsAbout>
      <Dialog title="Notice of a decision" opened={jti !== null} onClose={() => setJti(null)}>
        {jti !== null && <Notice jti={jti} />}
        <Group>
          <Button onClick={() => setJti(null)}>Close</Button>
        </Group>
      </Dialog>
    </Panel>
  );
}

function Notice({ jti }: { jti: string }) {
  const query = useGet<'NoticeDto'>(`v1/access/decisions/${jti}/notice`);
  return (
    <Loaded query={query} what="the notice">
      {({ policy_id, organization, granted, checked_at, reasons }) => (
        <>
          <Text>
            {granted ? 'Access was granted' : 'Access was denied'} by <Code>{policy_id}</Code>
            {organization !== null && ` of ${organization}`}, <Time value={checked_at} />.
          </Text>
          {reasons.length > 0 && (
            <List size="sm">
              {reasons.map(({ code, sentence }) => (
                <List.Item key={code + sentence}>{sentence}</List.Item>
              ))}
            </List>
          )}
          <Note>If something about you is wrong, contest it at the statement itself.</Note>
        </>
      )}
    </Loaded>
  );
}

/** Saves an answer as a file. */
async function save(path: string, name: string): Promise<void> {
  const url = URL.createObjectURL(new Blob([await getText(path)], { type: 'application/x-ndjson' }));
  Object.assign(document.createElement('a'), { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}
