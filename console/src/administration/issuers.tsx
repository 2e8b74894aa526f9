import { Group, Text } from '@mantine/core';
import { post, remove, type Schemas } from '../api.ts';
import { Confirmed } from '../confirmed.tsx';
import { Choices, Field, typed } from '../form.tsx';
import { GRANTABLE } from '../lab/rules.ts';
import { Needs, useMay } from '../lab/needs.tsx';
import { Paged } from '../paged.tsx';
import { Note, Panel } from '../panel.tsx';
import { Rows } from '../table.tsx';

/** Those whose verifications count in every policy. */
export function Issuers() {
  const mayOperate = useMay('ops');
  return (
    <Panel title="Accredited issuers">
      <Note>
        What an accredited issuer grants counts in every policy; what others grant, only in policies that name them.
        Grants by operators’ keys and proofs count without accreditation.
      </Note>
      <Needs what="The list of issuers">
        <Paged<Schemas['AccreditedIssuerDto']> path="v1/issuers" field="issuers" what="issuers">
          {(issuers) => (
            <Rows
              caption="List of issuers"
              empty="No issuer is accredited."
              head={['Issuer', 'Accredited for', ...(mayOperate ? ['Actions'] : [])]}
              // All that it was accredited for may have been withdrawn.
              rows={issuers
                .filter(({ statuses }) => statuses.length > 0)
                .map(({ issuer, statuses }) => [
                  issuer,
                  statuses.join(', '),
                  ...(mayOperate ? [<Withdraw key="withdraw" issuer={issuer} statuses={statuses} />] : []),
                ])}
            />
          )}
        </Paged>
      </Needs>
      <Needs scope="ops" what="Accrediting an issuer, and withdrawing that,">
        <Group>
          <Confirmed
            label="Accredit an issuer"
            title="Accredit an issuer"
            verb="Accredit"
            act={(form) => post('v1/issuers', { issuer: typed(form, 'issuer'), statuses: form.getAll('statuses') })}
          >
            <Field
              label="Issuer"
              description="The TRIS id of an organization, or key: and the id of a key, as verifications list it."
              name="issuer"
              required
              placeholder="tris:registry"
              data-autofocus
            />
            <Choices legend="Its grants of these count" name="statuses" values={GRANTABLE} />
          </Confirmed>
        </Group>
      </Needs>
    </Panel>
  );
}

function Withdraw({ issuer, statuses }: Schemas['AccreditedIssuerDto']) {
  return (
    <Confirmed
      label="Withdraw"
      describes={issuer}
      title={`Withdraw the accreditation of ${issuer}`}
      verb="Withdraw"
      act={(form) =>
        remove(`v1/issuers/${encodeURIComponent(issuer)}`, { statuses: form.getAll('statuses').join(',') })
      }
    >
      <Text size="sm">
        What it has granted, and will grant, then counts only in policies that name it. Access can be lost at once.
      </Text>
      <Choices legend="For" name="statuses" values={statuses} chosen={statuses} />
    </Confirmed>
  );
}
