import { VIEWS, viewOf } from './views.ts';

// Together: the view would otherwise be asked for only when the page around it is shown. There its failure is told, too.
const view = viewOf(window.location.hash);
if (view) VIEWS[view]().catch(() => undefined);
void import('./main.tsx');
