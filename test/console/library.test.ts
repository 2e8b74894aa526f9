import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type FastifyInstance, fastify } from 'fastify';
import { build } from 'esbuild';
import type { Browser } from 'playwright-core';
import { CONSOLE_HEADERS } from '../../src/http/headers.js';
import { describeBrowser, launch, watchedPages } from './browser.js';

/** Components that the console uses, each in a state in which it is shown. */
const PAGE = `
  import * as React from 'react';
  import { createRoot } from 'react-dom/client';
  import * as m from '@mantine/core';
  import { Dialog } from './dialog.tsx';
  import { theme } from './theme.tsx';
  const h = React.createElement;
  createRoot(document.querySelector('#root')).render(
    h(m.MantineProvider, { theme, withCssVariables: false, withGlobalClasses: false, defaultColorScheme: 'auto' },
      h(m.Alert, { title: 'Alert' }, 'text'), h(m.List, {}, h(m.List.Item, {}, 'List')), h(m.Anchor, { href: '#' }, 'Anchor'), h(m.Badge, { color: 'red' }, 'Badge'), h(m.Box, { c: 'dimmed' }, 'Box'),
      h(m.Blockquote, {}, 'Blockquote'), h(m.Button.Group, {}, h(m.Button, {}, 'Button')), h(m.Checkbox, { label: 'Checkbox' }),
      h(m.Code, { block: true }, 'Code'),
      h(m.DataList, {}, h(m.DataList.Item, {}, h(m.DataList.ItemLabel, {}, 'a'), h(m.DataList.ItemValue, {}, 'b'))),
      h(m.EmptyState, { title: 'EmptyState', description: 'text' }), h(m.Fieldset, { legend: 'Fieldset' }),
      h(m.Group, {}, h(m.Loader, {})), h(m.NativeSelect, { label: 'NativeSelect', data: ['a'], error: 'wrong' }),
      h(m.Paper, { withBorder: true, p: 'md' }, h(m.Progress, { value: 50, 'aria-label': 'Progress' })),
      h(m.Slider, { defaultValue: 5, thumbLabel: 'Slider' }),
      h(m.Stack, {}, h(m.Table, { highlightOnHover: true }, h(m.Table.Tbody, {}, h(m.Table.Tr, {}, h(m.Table.Td, {}, 'Table'))))),
      h(m.Text, { c: 'dimmed', size: 'sm' }, 'Text'), h(m.Textarea, { label: 'Textarea' }), h(m.TextInput, { label: 'TextInput' }),
      h(m.Title, { order: 2 }, 'Title'), h(m.VisuallyHidden, {}, 'VisuallyHidden'),
      h(m.Tooltip, { label: 'Tooltip text', events: { hover: true, focus: true, touch: true } }, h('span', { tabIndex: 0 }, 'Tooltip')),
      h(Dialog, { opened: true, onClose() {}, title: 'm.Modal' }, h(m.TextInput, { label: 'In it' })),
    ),
  );
`;

/** What the console imports from the library and shows. */
const used = readdirSync('console/src', { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.tsx'))
  .map((file) => readFileSync(join('console/src', file), 'utf8'))
  .flatMap((text) => /import \{([^}]+)\} from '@mantine\/core'/.exec(text)?.[1]!.match(/\b[A-Z]\w+/g) ?? [])
  .filter((name) => !name.endsWith('Props'));

describeBrowser('the component library', () => {
  let browser: Browser;
  let server: FastifyInstance;
  const newPage = watchedPages();
  afterEach(() => server.close());
  beforeAll(async () => {
    browser = await launch();
  });
  afterAll(() => browser?.close());

  test('needs no style element and no HTML that the content security policy of the console forbids', async () => {
    expect(used.filter((name) => !PAGE.includes(`m.${name}`))).toEqual([]);
    const { outputFiles } = await build({
      stdin: { contents: PAGE, resolveDir: 'console/src', loader: 'jsx' },
      bundle: true,
      write: false,
      format: 'esm',
      jsx: 'automatic',
      define: { 'process.env.NODE_ENV': '"production"' },
    });
    server = fastify();
    server.get('/', (_request, reply) =>
      reply
        .headers(CONSOLE_HEADERS)
        .type('text/html')
        .send(
          '<!doctype html><link rel="icon" href="data:,"><script type="module" src="/page.js"></script><div id="root"></div>',
        ),
    );
    server.get('/page.js', (_request, reply) => reply.type('text/javascript').send(outputFiles[0]!.text));
    const url = await server.listen({ port: 0, host: '127.0.0.1' });
    const page = await newPage(browser, url);
    await page.goto(url);
    await page.getByRole('dialog').waitFor();
    await page.getByText('Tooltip', { exact: true }).focus();
    await page.getByText('Tooltip text').waitFor();
    expect(await page.locator('style').count()).toBe(0);
  });
});
