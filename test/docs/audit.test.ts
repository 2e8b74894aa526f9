import { readdirSync } from 'node:fs';
import type { EventDefinition } from '../../src/kernel/event-definition.js';
import { codes, read, section, tableRows } from './markdown.js';

/** docs/audit.md describes every field of every event, and none that is not there. */

const DOCUMENT = read('docs/audit.md');

async function definitions(): Promise<EventDefinition[]> {
  const files = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.events.ts'));
  const isDefinition = (value: unknown): value is EventDefinition =>
    typeof (value as EventDefinition | null)?.check === 'function' && 'fields' in (value as object);
  const found: EventDefinition[] = [];
  for (const file of files) {
    const module = (await import(`../../src/${file.replace(/\.ts$/, '.js')}`)) as Record<string, unknown>;
    found.push(...Object.values(module).filter(isDefinition));
  }
  return found;
}

test('every event with its schema, and each of its fields, in order', async () => {
  const defined = (await definitions()).map(({ type, schema, fields }) => [type, schema, fields]);
  expect(defined.length).toBeGreaterThan(40);
  const listed = [...DOCUMENT.matchAll(/^### (\w+), schema (\d+)$/gm)].map(([heading, type, schema]) => {
    const rows = tableRows(section(DOCUMENT, heading!.slice(4)));
    return [type, Number(schema), rows.map(([field]) => codes(field!)[0])];
  });
  const byType = (a: unknown[], b: unknown[]) => String(a[0]).localeCompare(String(b[0]));
  expect(listed.sort(byType)).toEqual(defined.sort(byType));
});
