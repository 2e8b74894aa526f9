import { join } from 'node:path';
import { hasDevelopmentKey } from '../credentials/api-keys.js';
import type { Config } from '../kernel/config.js';
import { hasConsole } from './console.js';

/** What a new user needs first. @param created the key, if this boot created it @param examples what data there is */
export function welcome(config: Config, url: string, created?: string, examples?: string): string {
  if (!config.has('api')) return `Credence is running as a worker; health and metrics: ${url}`;
  const from = config.profile === 'embedded' ? config.data : 'EventStoreDB and PostgreSQL';
  const lines = [`Credence serves ${url} from ${from}`, `Documentation: ${url}/docs`];
  if (hasConsole(config)) lines.push(`Console: ${url}/console`);
  if (examples !== undefined) lines.push(examples);
  if (config.apiKeys !== undefined) return lines.join('\n');
  if (!hasDevelopmentKey(config)) return [...lines, 'API keys: `credence keys create`'].join('\n');
  const keyFile = join(config.data, 'dev-api-key');
  if (created)
    lines.push(`Development key with every scope, shown only this once and stored in ${keyFile}: ${created}`);
  else lines.push(`Development key: in ${keyFile}`);
  const action = {
    tris_id: 'tris:alice',
    action_type: 'loan_repayment',
    category: 'financial',
    criticality: 'High',
    platform_id: 'lender',
  };
  return [
    ...lines,
    '',
    'Relay an action, read the score, see its history:',
    `  curl -X POST ${url}/api/decision-relay -H "X-API-Key: $(cat ${shellWord(keyFile)})" -H 'Content-Type: application/json' -d '${JSON.stringify(action)}'`,
    `  curl ${url}/v1/disc/score/tris:alice`,
    `  curl ${url}/v1/disc/score/tris:alice/history`,
  ].join('\n');
}

function shellWord(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
