import type { Place } from './place.ts';

const others = () => import('./others.ts');

/** The views beside the overview, by their names in the address. A script is loaded when a view of it is opened. */
export const VIEWS = {
  identity: async () => (await import('./identity/identity-view.tsx')).IdentityView,
  me: async () => (await others()).MeView,
  lab: async () => (await others()).LabView,
  live: async () => (await others()).LiveView,
  operations: async () => (await others()).OperationsView,
  administration: async () => (await others()).AdministrationView,
};

export type ViewName = keyof typeof VIEWS;

/** @returns undefined for the overview, where the address names no view, or an identity without its id */
export const viewOf = ({ view, id }: Place): ViewName | undefined =>
  Object.hasOwn(VIEWS, view) && (view !== 'identity' || id !== '') ? (view as ViewName) : undefined;
