import { type Accreditation, evolve } from '../src/features/identity/domain/accreditation.js';
import { isAnyOf } from './events.js';
import { type Projection, rowIn } from './projection.js';

const isOfIssuer = isAnyOf('IssuerAccredited', 'AccreditationWithdrawn');

/** Issuers by name, with the statuses they are and were accredited for. */
export const accreditations: Projection = {
  name: 'accreditations',
  version: 2,
  views: ['accreditations'],

  reads: (event) => (isOfIssuer(event) ? [accreditationRow(event.data.issuer)] : []),

  apply(event, rows) {
    if (!isOfIssuer(event)) return;
    const row = accreditationRow(event.data.issuer);
    rows.put(row, evolve(rows.get<Accreditation>(row), event));
  },
};

export const ACCREDITATIONS = { view: 'accreditations', key: 'all' };

export const accreditationRow = (issuer: string) => rowIn(ACCREDITATIONS, issuer);
