/** The rules of docs/architecture.md, checked by `npm run check:dependencies`. */
const PORTS = '^src/(event-store/event-store|read-models/read-models|key-value/key-value|jobs/jobs)\\.ts$';
const FEATURES =
  '^src/(relay|disc|credonations|organizations|identity|policies|eligibility|verifications|trove|sessions|wallets|chains)/';

module.exports = {
  forbidden: [
    {
      name: 'no-cycles',
      severity: 'error',
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
    },
    {
      name: 'scoring-is-pure',
      comment: 'The score’s arithmetic imports nothing but itself and hashes.',
      severity: 'error',
      from: { path: '^src/scoring/' },
      to: { pathNot: '^(src/scoring/|src/hash\\.ts$)' },
    },
    {
      name: 'projections-are-pure',
      comment: 'Folds import events, scoring and types: no Nest, no I/O, no clock.',
      severity: 'error',
      from: { path: '^projections/' },
      to: {
        pathNot: '^(projections/|src/scoring/|src/events\\.ts$|src/json\\.ts$)',
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      name: 'events-are-pure',
      comment: 'Event definitions and decisions reach no framework beyond the port’s types.',
      severity: 'error',
      from: { path: '\\.events\\.ts$|^src/events\\.ts$' },
      to: { pathNot: '^src/(event-store/codec|scoring/|json\\.ts$|.*\\.events\\.ts$|events\\.ts$)' },
    },
    {
      name: 'features-know-ports-only',
      comment: 'A feature never imports an adapter.',
      severity: 'error',
      from: { path: FEATURES },
      to: { path: '^src/(.*(lmdb|redis|bullmq|eventstoredb)|stores\\.ts)' },
    },
    {
      name: 'only-stores-know-adapters',
      severity: 'error',
      from: {
        pathNot:
          '^(src/stores\\.ts$|src/.*(lmdb|redis|bullmq|eventstoredb)|src/(event-store|read-models|key-value|jobs)/|test/|bench/)',
      },
      to: { path: 'lmdb|redis|bullmq|eventstoredb' },
    },
    {
      name: 'only-its-folder-knows-eventstoredb',
      comment: 'What the client does not handle is handled in one folder; only src/stores.ts opens it.',
      severity: 'error',
      from: { path: '^(src|projections)/', pathNot: '^src/event-store/eventstoredb/' },
      to: { path: '@eventstore/db-client' },
    },
    {
      name: 'only-stores-open-eventstoredb',
      severity: 'error',
      from: { path: '^(src|projections)/', pathNot: '^src/(event-store/eventstoredb/|stores\\.ts$)' },
      to: { path: '^src/event-store/eventstoredb/' },
    },
    {
      name: 'ports-import-types-only',
      severity: 'error',
      from: { path: PORTS },
      to: { dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'the-verifier-stands-alone',
      comment: 'What integrators import as credence/eligibility needs Node’s own crypto and nothing else.',
      severity: 'error',
      from: { path: '^src/eligibility/verifier\\.ts$' },
      to: { pathNot: '^(node:)?crypto$' },
    },
    { name: 'nothing-unresolvable', severity: 'error', from: {}, to: { couldNotResolve: true } },
    {
      name: 'declared-runtime-dependencies',
      severity: 'error',
      from: { path: '^(src|projections)/' },
      to: { dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-optional'], dependencyTypesNot: ['type-only'] },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'require', 'node', 'default'] },
  },
};
