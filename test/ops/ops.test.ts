import { spawnSync } from 'node:child_process';
import { Server } from '../e2e/server.js';
import { codes, read, section, tableRows } from '../docs/markdown.js';
import { isOnPath } from '../servers/programs.js';

/** What ops/ gives to Prometheus and Grafana: every metric in it is served, and every section that it refers to exists. */

interface Panel {
  type: string;
  title: string;
  gridPos: { h: number; w: number; x: number; y: number };
  targets?: { expr: string }[];
}
const dashboard = JSON.parse(read('ops/dashboard.json')) as { panels: Panel[]; templating: { list: any[] } };
const rules = read('ops/alerts.yml');

const named = (text: string) => [
  ...new Set([...text.matchAll(/\b(?:credence|http|process|nodejs)_[a-z0-9_]+\b/g)].map(([name]) => name)),
];
/** The metric that a series of a histogram belongs to. */
const metricOf = (series: string, served: ReadonlySet<string>) =>
  served.has(series) ? series : series.replace(/_(bucket|count|sum)$/, '');

test('every metric of the dashboard and the alerts is one of a running service, or of the cluster profile', async () => {
  const server = await Server.start();
  const { text } = await server.send('GET', '/metrics').finally(() => server.end());
  const ofCluster = tableRows(section(read('docs/monitoring.md'), 'Metrics of the cluster profile'));
  const served = new Set([
    ...[...text.matchAll(/^# TYPE (\w+) /gm)].map(([, name]) => name!),
    ...ofCluster.map(([name]) => codes(name!)[0]!),
  ]);
  const expressions = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  for (const source of [rules, expressions.join('\n'), JSON.stringify(dashboard.templating)]) {
    const series = named(source);
    expect(series.length).toBeGreaterThan(0);
    expect(series.filter((name) => !served.has(metricOf(name, served)))).toEqual([]);
  }
  // Nothing that docs/monitoring.md tells operators to watch is missing from the dashboard.
  const shown = new Set(named(expressions.join('\n')).map((name) => metricOf(name, served)));
  const own = [...served].filter((name) => /^(credence|http)_/.test(name));
  expect(own.filter((name) => !shown.has(name))).toEqual([]);
});

test('every alert refers to a section of a document', () => {
  const anchorOf = (heading: string) =>
    heading
      .toLowerCase()
      .replace(/[^\w -]/g, '')
      .replaceAll(' ', '-');
  const isSection = ([, file, anchor]: RegExpExecArray) =>
    [...read(`docs/${file}`).matchAll(/^#+ (.*)$/gm)].some(([, heading]) => anchorOf(heading!) === anchor);
  const references = [...rules.matchAll(/runbook_url: '\{\{ \$externalLabels\.docs_url \}\}\/(\S+\.md)#(.*)'$/gm)];
  expect(references).toHaveLength([...rules.matchAll(/- alert: /g)].length);
  expect(references.filter((reference) => !isSection(reference))).toEqual([]);
});

test('the section about alerts names each alert that refers to it, and no other', () => {
  const referring = [
    ...rules.matchAll(/- alert: (\w+)\n(?:(?! *- alert).*\n)*? +runbook_url: .*\/runbook\.md#an-alert-fires'$/gm),
  ];
  const rows = tableRows(section(read('docs/runbook.md'), 'An alert fires'));
  expect(rows.map(([name]) => codes(name!)[0]).sort()).toEqual(referring.map(([, name]) => name).sort());
});

test('the panels of the dashboard do not overlap', () => {
  const covered = new Set<string>();
  for (const { title, gridPos } of dashboard.panels) {
    for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
      for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
        expect([title, x < 24, covered.has(`${x},${y}`)]).toEqual([title, true, false]);
        covered.add(`${x},${y}`);
      }
    }
  }
});

const hasPromtool = isOnPath('promtool');
if (!hasPromtool) process.stderr.write('promtool is not installed: the alert rules are not checked by it\n');
(hasPromtool ? test : test.skip)('promtool accepts the alert rules', () => {
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'rules', 'ops/alerts.yml'], { encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, '']);
  expect(stdout).toContain('SUCCESS');
});

(hasPromtool ? test : test.skip)('alerts about callers fire when they should, and only then', () => {
  const { status, stdout, stderr } = spawnSync('promtool', ['test', 'rules', 'test/ops/alerts.test.yml'], {
    encoding: 'utf8',
  });
  expect([status, stdout + stderr]).toEqual([0, expect.stringContaining('SUCCESS')]);
});
