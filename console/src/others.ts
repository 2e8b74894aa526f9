/** The views beside the overview and the page of an identity, in one script: each is small, and shares much with the others. */
export { AdministrationView } from './administration/administration-view.tsx';
export { LabView } from './lab/lab-view.tsx';
export { LiveView } from './live.tsx';
export { MeView } from './me/me-view.tsx';
export { OperationsView } from './operations/operations-view.tsx';
