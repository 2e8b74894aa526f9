import type { Coordinates } from './api.ts';

/** What the address shows: `#/<view>/<id>?<parameters>`. A link to it shows the same. */
export interface Place {
  view: string;
  id: string;
  parameters: URLSearchParams;
}

export function placeOf(hash: string): Place {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const [view = '', ...rest] = path.split('/');
  return { view, id: decoded(rest.join('/')), parameters: new URLSearchParams(query) };
}

export function hrefOf(view: string, id = '', parameters: URLSearchParams = new URLSearchParams()): string {
  const query = parameters.size > 0 ? `?${parameters}` : '';
  return `#/${view}${id === '' ? '' : `/${encodeURIComponent(id)}`}${query}`;
}

/** Changes parameters of the address without a new entry in the history of the tab. Undefined removes one. */
export function setParameters(changes: Record<string, string | undefined>): void {
  const { view, id, parameters } = placeOf(window.location.hash);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined) parameters.delete(name);
    else parameters.set(name, value);
  }
  window.location.replace(hrefOf(view, id, parameters));
}

const COORDINATES = ['as_of', 'known_at', 'as_of_position', 'vp', 'model'] as const;

/** @param prefix of the parameters' names: empty, or that of the compared side */
export function coordinatesOf(parameters: URLSearchParams, prefix = ''): Coordinates {
  return Object.fromEntries(COORDINATES.map((name) => [name, parameters.get(prefix + name) ?? undefined]));
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
