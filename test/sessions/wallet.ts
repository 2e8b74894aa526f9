import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts';
import { type Answer, send } from '../http/client.js';
import type { Service } from '../policies/service.fixture.js';

/** Wallets of people, and what they do with the service. */
type At = Pick<Service, 'port'>;
export type Account = ReturnType<typeof privateKeyToAccount>;

export const newAccount = (): Account => privateKeyToAccount(generatePrivateKey());
/** An account that is the same in every run. */
export const account = (n: number): Account => privateKeyToAccount(`0x${n.toString(16).padStart(64, '0')}`);

/** A POST without an API key, unless the headers carry one. */
export function call(service: At, path: string, body: unknown, headers: Record<string, string> = {}) {
  const all = { 'content-type': 'application/json', ...headers };
  return send(service.port, 'POST', path, { headers: all, body: JSON.stringify(body) });
}

export async function start(
  service: At,
  address: string,
  wish: Record<string, unknown> = {},
): Promise<{ nonce: string; message: string; expires_at: string }> {
  const answer = await call(service, '/v1/tris/auth/siwe/start', { address, chain_id: 1, ...wish });
  if (answer.status !== 200) throw new Error(answer.text);
  return answer.json;
}

export const verify = (service: At, message: string, signature: string): Promise<Answer> =>
  call(service, '/v1/tris/auth/siwe/verify', { message, signature });

export async function signIn(service: At, signer: Account, wish: Record<string, unknown> = {}): Promise<Answer> {
  const { message } = await start(service, signer.address, wish);
  return verify(service, message, await signer.signMessage({ message }));
}

export interface Tokens {
  access_token: string;
  refresh_token: string;
  expires_in: number;
  tris_id: string | null;
  wallet: string;
}

/** A session of a wallet that has claimed its own TRIS. */
export async function claim(service: At, signer: Account): Promise<Tokens & { tris_id: string }> {
  const answer = await signIn(service, signer, { purpose: 'claim' });
  if (answer.status !== 200) throw new Error(answer.text);
  return answer.json;
}

export const bearer = (tokens: { access_token: string }) => ({ authorization: `Bearer ${tokens.access_token}` });

/** What a wallet signs to be linked to a TRIS, or unlinked from it. */
export async function consent(service: At, signer: Account, tris_id: string, purpose: 'link' | 'unlink' = 'link') {
  const { message } = await start(service, signer.address, { purpose, tris_id });
  return { message, signature: await signer.signMessage({ message }) };
}

export const codeOf = ({ status, json }: Answer) => [status, json?.code];
