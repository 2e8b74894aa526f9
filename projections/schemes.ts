import { isAnyOf } from './events.js';
import { type Projection, rowIn } from './projection.js';

/** A verification scheme, as listed; its key and its roots are in its own stream. */
export interface SchemeRow {
  scheme: string;
  status: string;
  issuer: string;
  scope: string;
  verification_key_hash: string;
  transcript_hash: string | null;
  /** ms since the epoch. */
  registered_at: number;
  retired: boolean;
}

const changesScheme = isAnyOf('SchemeRetired', 'SchemeTranscriptDeclared');

/** Verification schemes by id. */
export const schemes: Projection = {
  name: 'schemes',
  version: 2,
  views: ['schemes'],

  reads: (event) => (changesScheme(event) ? [schemeRow(event.data.scheme)] : []),

  apply(event, rows) {
    if (event.type === 'SchemeRegistered') {
      const { scheme, status, issuer, scope, verification_key_hash, transcript_hash } = event.data;
      const listed = { scheme, status, issuer, scope, verification_key_hash, transcript_hash };
      const row: SchemeRow = { ...listed, registered_at: event.recorded_at, retired: false };
      rows.put(schemeRow(scheme), row);
    }
    if (changesScheme(event)) {
      const row = schemeRow(event.data.scheme);
      const scheme = rows.get<SchemeRow>(row);
      if (!scheme) return;
      if (event.type === 'SchemeRetired') rows.put(row, { ...scheme, retired: true });
      else rows.put(row, { ...scheme, transcript_hash: event.data.transcript_hash });
    }
  },
};

export const SCHEMES = { view: 'schemes', key: 'all' };

const schemeRow = (scheme: string) => rowIn(SCHEMES, scheme);
