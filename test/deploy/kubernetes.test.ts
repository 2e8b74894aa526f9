import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { parse, parseAllDocuments } from 'yaml';
import { loadConfig } from '../../src/kernel/config.js';

/** deploy/kubernetes: every manifest by the schema of its kind, and what they have to agree on. */

const require = createRequire(import.meta.url);
const PACKAGES = {
  'apps/v1': 'kubernetes-models',
  'networking.k8s.io/v1': 'kubernetes-models',
  'policy/v1': 'kubernetes-models',
  v1: 'kubernetes-models',
  'monitoring.coreos.com/v1': '@kubernetes-models/prometheus-operator',
} as Record<string, string>;

/** The names of all fields: the schemas accept fields that they do not know. */
const known = new Set<string>();
for (const group of [...Object.entries(PACKAGES), ['apis/meta/v1', '@kubernetes-models/apimachinery']] as const) {
  const folder = join(dirname(require.resolve(`${group[1]}/package.json`)), group[0]!);
  for (const file of readdirSync(folder).filter((path) => path.endsWith('.d.ts'))) {
    const text = readFileSync(join(folder, file), 'utf8');
    for (const [, field] of text.matchAll(/^\s+"(\w+)"\??:/gm)) known.add(field!);
  }
}
/** Whose keys are the user's. */
const MAPS = new Set(['data', 'labels', 'matchLabels', 'limits', 'requests', 'selector']);

type Manifest = Record<string, any> & { apiVersion: string; kind: string };

function problemsOf(manifest: Manifest): string[] {
  const { apiVersion, kind } = manifest;
  const { [kind]: Model } = require(`${PACKAGES[apiVersion]}/${apiVersion}/${kind}`);
  const problems: string[] = [];
  try {
    new Model(manifest).validate();
  } catch (error) {
    problems.push((error as Error).message);
  }
  const visit = (value: unknown) => {
    if (typeof value !== 'object' || value === null) return;
    for (const [key, inner] of Object.entries(value)) {
      if (!Array.isArray(value) && !known.has(key)) problems.push(`there is no field ${key}`);
      if (!MAPS.has(key)) visit(inner);
    }
  };
  visit(manifest);
  return problems;
}

function manifestsOf(profile: string): Manifest[] {
  const folder = join('deploy/kubernetes', profile);
  const { namespace, resources, images } = parse(readFileSync(join(folder, 'kustomization.yaml'), 'utf8'));
  const files = readdirSync(folder).filter((file) => file !== 'kustomization.yaml');
  expect(files.sort()).toEqual([...resources].sort());
  expect(namespace).toBe('credence');
  const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
  expect(images).toEqual([{ name: 'credence', newTag: version }]);
  return files.flatMap((file) =>
    parseAllDocuments(readFileSync(join(folder, file), 'utf8')).map((document) => document.toJS() as Manifest),
  );
}

const EMBEDDED = manifestsOf('embedded');
const CLUSTER = manifestsOf('cluster');
const workloads = (manifests: Manifest[]) =>
  manifests.filter(({ kind }) => ['Deployment', 'StatefulSet'].includes(kind)).map(({ spec }) => spec);
const containerOf = (spec: any) => spec.template.spec.containers[0];
const dockerfile = readFileSync('Dockerfile', 'utf8');

test('every manifest is one of its kind', () => {
  for (const manifest of [...EMBEDDED, ...CLUSTER]) {
    expect([manifest.kind, manifest['metadata'].name, problemsOf(manifest)]).toEqual([
      manifest.kind,
      manifest['metadata'].name,
      [],
    ]);
  }
  const broken = structuredClone(EMBEDDED.find(({ kind }) => kind === 'StatefulSet')!);
  broken['spec'].replicas = '1';
  broken['spec'].template.spec.terminationGracePeriod = 30;
  expect(problemsOf(broken)).toEqual([
    'data/spec/replicas must be integer',
    'there is no field terminationGracePeriod',
  ]);
});

test('only one process of the embedded profile uses its volume, and its log outlives the pod', () => {
  const [spec] = workloads(EMBEDDED);
  expect([spec.replicas, spec.volumeClaimTemplates[0].spec.accessModes]).toEqual([1, ['ReadWriteOncePod']]);
  expect(workloads(EMBEDDED)).toHaveLength(1);
  expect(containerOf(spec).volumeMounts).toEqual([{ name: 'data', mountPath: '/data' }]);
  expect(dockerfile).toContain('ENV CREDENCE_DATA=/data\n');
});

test.each([
  ['embedded', EMBEDDED],
  ['cluster', CLUSTER],
])('%s: no pod can be more than the service needs, and each stops within its time', (_, manifests) => {
  const [, uid] = /^USER (\d+):\d+$/m.exec(dockerfile)!;
  for (const spec of workloads(manifests)) {
    const pod = spec.template.spec;
    const container = containerOf(spec);
    expect(pod).toMatchObject({ automountServiceAccountToken: false, enableServiceLinks: false });
    expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: Number(uid), fsGroup: Number(uid) });
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    // Ten seconds of the process, and what it waits before.
    const waits = Number(container.lifecycle?.preStop.exec.command[1] ?? 0);
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(waits + 10);
    expect(container.resources.limits.cpu).toBeUndefined();
    expect(container.ports).toEqual([{ name: 'http', containerPort: 3000 }]);
    expect(spec.selector.matchLabels).toEqual(spec.template.metadata.labels);
  }
});

test.each([
  ['embedded', EMBEDDED],
  ['cluster', CLUSTER],
])('%s: services, budgets and policies choose the pods that there are, by ports that these have', (_, manifests) => {
  const pods = workloads(manifests).map(({ template }) => template.metadata.labels as Record<string, string>);
  const selectors = manifests.flatMap(({ kind, spec }) => {
    if (kind === 'Service') return [spec.selector];
    if (kind === 'PodDisruptionBudget') return [spec.selector.matchLabels];
    return kind === 'NetworkPolicy' ? [spec.podSelector.matchLabels] : [];
  });
  expect(selectors.length).toBeGreaterThan(1);
  for (const selector of selectors) {
    const chosen = pods.filter((labels) => Object.entries(selector).every(([key, value]) => labels[key] === value));
    expect([selector, chosen.length > 0]).toEqual([selector, true]);
  }
  for (const { spec } of manifests.filter(({ kind }) => kind === 'Service')) {
    expect(spec.ports).toEqual([{ name: 'http', port: 80, targetPort: 'http' }]);
  }
});

test('the processes start with the configuration that they are given, as their roles', () => {
  const { data } = CLUSTER.find(({ kind }) => kind === 'ConfigMap')!;
  const stores = {
    EVENTSTORE_URL: 'esdb://eventstore:2113?tls=false',
    REDIS_URL: 'redis://redis:6379',
    CREDENCE_DATABASE_URL: 'postgres://credence:credence@postgres:5432/credence',
  };
  const variables = (spec: any) =>
    Object.fromEntries(containerOf(spec).env.map(({ name, value }: { name: string; value: string }) => [name, value]));
  const roles = workloads(CLUSTER).map((spec) => {
    const { readinessProbe, livenessProbe, lifecycle } = containerOf(spec);
    expect(livenessProbe.httpGet.path).toBe('/health/live');
    const config = loadConfig({ CREDENCE_DATA: '/data', ...data, ...stores, ...variables(spec) });
    expect(config).toMatchObject({ profile: 'cluster', host: '0.0.0.0', port: 3000, trustProxy: true });
    return [config.roles, readinessProbe.httpGet.path, lifecycle !== undefined];
  });
  // A worker gets no requests that it would have to lose first.
  expect(roles).toEqual([
    [['api'], '/health/ready?for=reads', true],
    [['worker'], '/health/ready', false],
  ]);
  const [embedded] = workloads(EMBEDDED);
  expect(loadConfig({ CREDENCE_DATA: '/data', ...variables(embedded) })).toMatchObject({
    profile: 'embedded',
    host: '0.0.0.0',
    trustProxy: true,
  });
});

test('the image says who it is, how it is, and how it ends', () => {
  expect(dockerfile).toMatch(/^STOPSIGNAL SIGTERM$/m);
  expect(dockerfile).toMatch(/^HEALTHCHECK .*\\\n {2}CMD \["node", "-e", /m);
  expect(dockerfile).toMatch(/^RUN ln -s \/app\/dist\/src\/cli\.js \/usr\/local\/bin\/credence/m);
});
