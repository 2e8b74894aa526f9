/** All views but the overview and the page of an identity. They are one script: each is small, and they share much. */
export { AdministrationView } from './administration/administration-view.tsx';
export { LabView } from './lab/lab-view.tsx';
export { LiveView } from './live.tsx';
export { MeView } from './me/me-view.tsx';
export { OperationsView } from './operations/operations-view.tsx';
