import type { Place } from './place.ts';

/** The views beside the overview, by their names in the address. Each is a script of its own, loaded when it is opened. */
export const VIEWS = {
  identity: async () => (await import('./identity/identity-view.tsx')).IdentityView,
  me: async () => (await import('./me/me-view.tsx')).MeView,
  lab: async () => (await import('./lab/lab-view.tsx')).LabView,
  live: async () => (await import('./live.tsx')).LiveView,
  operations: async () => (await import('./operations/operations-view.tsx')).OperationsView,
  administration: async () => (await import('./administration/administration-view.tsx')).AdministrationView,
};

export type ViewName = keyof typeof VIEWS;

/** @returns undefined for the overview, where the address names no view, or an identity without its id */
export const viewOf = ({ view, id }: Place): ViewName | undefined =>
  Object.hasOwn(VIEWS, view) && (view !== 'identity' || id !== '') ? (view as ViewName) : undefined;
