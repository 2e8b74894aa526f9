/** The rules of docs/architecture.md, checked by `npm run check:dependencies`. */

/** The rooms of the house from the bottom up. A file imports from its own row and the rows above it in this list only. */
const LAYERS = [
  ['^src/kernel/'],
  ['^src/stores/'],
  ['^src/scoring/'],
  ['^src/credentials/'],
  ['^src/commands/'],
  ['^src/features/[^/]+/domain/'],
  ['^projections/'],
  ['^src/read-side/'],
  ['^src/http/'],
  ['^src/features/[^/]+/[^/]+$'],
  ['^src/app/'],
  ['^src/cli/', '^src/(main|serve|cli)\\.ts$'],
];

/** What a feature may import of other features. The order is that of the diagram in docs/architecture.md. */
const FEATURES = {
  audit: [],
  organizations: [],
  identity: [],
  'dead-letters': [],
  checkpoints: [],
  jobs: [],
  keys: [],
  operations: ['jobs'],
  lenses: [],
  'policy-names': [],
  credonations: [],
  accounts: [],
  relay: ['organizations'],
  verifications: ['identity', 'accounts'],
  trove: ['relay', 'organizations', 'jobs'],
  ingestion: ['relay', 'organizations', 'accounts', 'jobs'],
  disc: ['accounts', 'identity', 'lenses'],
  access: ['accounts', 'identity', 'lenses', 'policy-names', 'disc', 'jobs'],
  'validation-policies': ['lenses', 'policy-names', 'disc', 'access', 'jobs'],
  person: ['organizations', 'accounts', 'disc', 'access', 'disputes'],
  withdrawals: ['relay', 'organizations', 'jobs', 'disc', 'access'],
  disputes: ['identity', 'accounts', 'relay', 'organizations', 'jobs'],
  webhooks: ['relay', 'lenses', 'disc', 'access', 'withdrawals', 'disputes'],
};

const above = (index) => LAYERS.slice(index + 1).flat();

module.exports = {
  forbidden: [
    {
      name: 'no-circular-files',
      severity: 'error',
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
    },
    {
      name: 'no-circular-folders',
      comment: 'By values or by types: of two folders, one knows the other, or neither does.',
      severity: 'error',
      scope: 'folder',
      from: {},
      to: { circular: true },
    },
    ...LAYERS.slice(0, -1).map((paths, index) => ({
      name: `layer-${index}-imports-nothing-above`,
      severity: 'error',
      from: { path: paths },
      to: { path: above(index) },
    })),
    ...Object.entries(FEATURES).map(([feature, allowed]) => ({
      name: `feature-${feature}`,
      comment: `${feature} may import ${allowed.join(', ') || 'no other feature'}.`,
      severity: 'error',
      from: { path: `^src/features/${feature}/` },
      to: { path: '^src/features/', pathNot: [feature, ...allowed].map((name) => `^src/features/${name}/`) },
    })),
    {
      name: 'scoring-is-pure',
      comment: 'The score’s arithmetic imports nothing but itself and hashes.',
      severity: 'error',
      from: { path: '^src/scoring/' },
      to: { pathNot: '^(src/scoring/|src/kernel/hash\\.ts$)' },
    },
    {
      name: 'domains-are-pure',
      comment: 'Events, states and decisions import no framework and no I/O.',
      severity: 'error',
      from: { path: '^src/features/[^/]+/domain/' },
      to: { pathNot: '^(src/(features/[^/]+/domain|scoring|kernel)/|(node:)?crypto$)' },
    },
    {
      name: 'features-know-http-at-their-edge',
      comment:
        'Commands and queries are the same for HTTP and the command line. The three jobs name the type of their answer.',
      severity: 'error',
      from: {
        path: '^src/features/',
        pathNot: '(\\.(controller|dto|module)|/access/(populations|decision-replays)|/withdrawals/withdraw-many)\\.ts$',
      },
      to: { path: '^src/http/' },
    },
    {
      name: 'projections-are-pure',
      comment: 'Folds import events, scoring and types: no Nest, no I/O, no clock.',
      severity: 'error',
      from: { path: '^projections/' },
      to: {
        pathNot:
          '^(projections/|src/scoring/|src/features/[^/]+/domain/|src/kernel/|src/commands/idempotency\\.events\\.ts$)',
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      name: 'features-know-ports-only',
      comment: 'A feature never imports an adapter.',
      severity: 'error',
      from: { path: '^src/(features|read-side|commands|credentials|http)/' },
      to: { path: '^src/stores/', pathNot: '^src/stores/ports/' },
    },
    {
      name: 'only-its-folder-knows-a-technology',
      comment: 'Outside their folders, only src/stores/open.ts and backup.ts name adapters.',
      severity: 'error',
      from: {
        path: '^(src|projections)/',
        pathNot: '^src/stores/(lmdb/|postgres/|redis/|eventstoredb/|open\\.ts$|backup\\.ts$)',
      },
      to: { path: '^src/stores/(lmdb|postgres|redis|eventstoredb)/' },
    },
    ...[
      ['lmdb', '^lmdb$|node_modules/lmdb/'],
      ['postgres', 'node_modules/pg(-copy-streams)?/'],
      ['redis', 'node_modules/(ioredis|bullmq)/'],
      ['eventstoredb', '@eventstore/db-client'],
    ].map(([folder, library]) => ({
      name: `only-stores-${folder}-knows-its-client`,
      severity: 'error',
      from: { path: '^(src|projections)/', pathNot: `^src/stores/${folder}/` },
      to: { path: library },
    })),
    {
      name: 'the-verifier-stands-alone',
      comment: 'What integrators import as credence/eligibility needs Node’s own crypto and nothing else.',
      severity: 'error',
      from: { path: '^src/credentials/jws\\.ts$' },
      to: { pathNot: '^(node:)?crypto$' },
    },
    {
      name: 'the-console-uses-http-only',
      comment: 'The console imports nothing of the service, and the service nothing of the console.',
      severity: 'error',
      from: { path: '^console/' },
      to: { path: '^(src|projections)/' },
    },
    {
      name: 'the-service-knows-no-console',
      severity: 'error',
      from: { path: '^(src|projections)/' },
      to: { path: '^console/' },
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
