import { useEffect, useState } from 'react';
import { currentSession, post, sendSession, type Tokens } from '../api.ts';

/** A wallet of the browser (EIP-1193). */
export interface Provider {
  request(call: { method: string; params?: unknown[] }): Promise<unknown>;
}

export interface BrowserWallet {
  id: string;
  name: string;
  provider: Provider;
}

/** The wallets that announce themselves to the page (EIP-6963). */
export function useWallets(): BrowserWallet[] {
  const [wallets, setWallets] = useState<BrowserWallet[]>([]);
  useEffect(() => {
    const announced = (event: Event) => {
      const { info, provider } = (event as CustomEvent<{ info: { uuid: string; name: string }; provider: Provider }>)
        .detail;
      const wallet = { id: info.uuid, name: info.name, provider };
      setWallets((known) => [...known.filter(({ id }) => id !== wallet.id), wallet]);
    };
    window.addEventListener('eip6963:announceProvider', announced);
    window.dispatchEvent(new Event('eip6963:requestProvider'));
    return () => window.removeEventListener('eip6963:announceProvider', announced);
  }, []);
  return wallets;
}

/**
 * Signs in with a wallet (EIP-4361): the service words the message, the wallet shows and signs it. From then on requests
 * are sent with the session, whose tokens are in memory only.
 * @param purpose `claim` also makes the wallet the first of a TRIS of its own
 * @throws ApiError; Error, in words for whoever signs in
 */
export async function signIn({ provider }: BrowserWallet, purpose: 'sign_in' | 'claim'): Promise<void> {
  const [address] = (await ask(provider, 'eth_requestAccounts')) as string[];
  if (address === undefined) throw new Error('The wallet offers no account.');
  const chain_id = Number(await ask(provider, 'eth_chainId'));
  const { message } = await post<{ message: string }>('v1/tris/auth/siwe/start', { address, chain_id, purpose });
  // What is signed for this page must be of no use elsewhere.
  const domain = message.slice(0, message.indexOf(' '));
  if (domain !== window.location.host) {
    throw new Error(`The service signs people in at ${domain}, and this page is at ${window.location.host}.`);
  }
  const bytes = new TextEncoder().encode(message);
  const hex = `0x${Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')}`;
  const signature = await ask(provider, 'personal_sign', [hex, address]);
  const before = currentSession();
  sendSession(await post<Tokens>('v1/tris/auth/siwe/verify', { message, signature }));
  // Of no more use. It runs out by itself should the service not hear of it.
  if (before) await post('v1/tris/token/revoke', { refresh_token: before.refresh_token }).catch(() => undefined);
}

async function ask(provider: Provider, method: string, params?: unknown[]): Promise<unknown> {
  try {
    return await provider.request({ method, ...(params && { params }) });
  } catch (error) {
    const { code, message = 'it does not say why' } = error as { code?: number; message?: string };
    const words = code === 4001 ? 'You declined in the wallet. Nothing was changed.' : `The wallet failed: ${message}`;
    throw new Error(words, { cause: error });
  }
}
