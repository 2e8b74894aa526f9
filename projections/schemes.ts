import type { Projection } from './projection.js';

/** A verification scheme, as listed; its key and its roots are in its own stream. */
export interface SchemeRow {
  scheme: string;
  status: string;
  issuer: string;
  scope: string;
  verification_key_hash: string;
  /** ms since the epoch. */
  registered_at: number;
  retired: boolean;
}

/** Verification schemes by id. */
export const schemes: Projection = {
  name: 'schemes',
  version: 1,
  views: ['schemes'],

  reads(event) {
    return event.type === 'SchemeRetired' ? [schemeRow(event.data.scheme)] : [];
  },

  apply(event, rows) {
    if (event.type === 'SchemeRegistered') {
      const { scheme, status, issuer, scope, verification_key_hash } = event.data;
      const registered_at = event.recorded_at;
      const row: SchemeRow = { scheme, status, issuer, scope, verification_key_hash, registered_at, retired: false };
      rows.put(schemeRow(scheme), row);
    }
    if (event.type === 'SchemeRetired') {
      const row = schemeRow(event.data.scheme);
      const scheme = rows.get<SchemeRow>(row);
      if (scheme) rows.put(row, { ...scheme, retired: true });
    }
  },
};

export const SCHEMES = { view: 'schemes', key: 'all' };

function schemeRow(scheme: string) {
  return { ...SCHEMES, sort: scheme };
}
