import { readFileSync } from 'node:fs';

/** Enough of Markdown to hold the documents to what the code does. */

export function read(file: string): string {
  return readFileSync(file, 'utf8');
}

export interface Block {
  language: string;
  /** What stands behind the language. */
  info: string;
  text: string;
}

/** Fenced code blocks in order. */
export function blocks(markdown: string): Block[] {
  return [...markdown.matchAll(/^```(\w*)(.*)\n([\s\S]*?)^```$/gm)].map(([, language, info, text]) => {
    return { language: language!, info: info!.trim(), text: text! };
  });
}

/** The part under a heading, up to the next heading of the same or a higher level. */
export function section(markdown: string, heading: string): string {
  const lines = markdown.split('\n');
  const start = lines.findIndex((line) => /^#+ /.test(line) && line.replace(/^#+ /, '') === heading);
  if (start < 0) throw new Error(`there is no heading "${heading}"`);
  const level = lines[start]!.indexOf(' ');
  const rest = lines.slice(start + 1);
  const end = rest.findIndex((line) => /^#+ /.test(line) && line.indexOf(' ') <= level);
  return rest.slice(0, end < 0 ? undefined : end).join('\n');
}

/** Rows of the first table in a text, cells trimmed, without the head; \| in a cell is a bar. */
export function tableRows(markdown: string): string[][] {
  const lines = markdown.split('\n');
  const start = lines.findIndex((line) => /^\|[\s|:-]+\|$/.test(line));
  if (start < 0) throw new Error('there is no table');
  const rows: string[][] = [];
  for (const line of lines.slice(start + 1)) {
    if (!line.startsWith('|')) break;
    rows.push(
      line
        .slice(1, -1)
        .split(/(?<!\\)\|/)
        .map((cell) => cell.trim().replaceAll('\\|', '|')),
    );
  }
  return rows;
}

/** The code spans of a text: `a`, `b` → [a, b]. */
export function codes(markdown: string): string[] {
  return [...markdown.replace(/^```[\s\S]*?^```$/gm, '').matchAll(/`([^`\n]+)`/g)].map(([, code]) => code!);
}
