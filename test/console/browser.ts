import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import {
  type Browser,
  type BrowserContextOptions,
  chromium,
  type Page,
  type PageScreenshotOptions,
  type Route,
} from 'playwright-core';

const PROGRAMS = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const program = PROGRAMS.find(existsSync);
if (program === undefined) process.stderr.write('skipped: tests in a browser, since there is no Chromium\n');

/** `describe` where there is a Chromium; elsewhere its tests count as skipped. */
export const describeBrowser = program === undefined ? describe.skip : describe;

export function launch(): Promise<Browser> {
  // The sandbox of Chromium does not work for root, as which containers run tests.
  return chromium.launch({ executablePath: program!, args: ['--no-sandbox'] });
}

/** Color schemes and widths, in pixels. */
export const SCREENS = [
  ['light', 1280],
  ['light', 360],
  ['dark', 1280],
  ['dark', 360],
] as const;

/** A score as the console shows it. `toFixed` differs: it makes 12.3 of 12.35, which is 12.3499… in binary. */
export const tenths = new Intl.NumberFormat('en', { minimumFractionDigits: 1, maximumFractionDigits: 1 }).format;

/** What must not happen on any page: requests to other hosts, errors, and what the content security policy blocked. */
export function watch(page: Page, origin: string): string[] {
  const found: string[] = [];
  page.on('request', (request) => {
    if (!request.url().startsWith(origin) && !request.url().startsWith('data:')) found.push(request.url());
  });
  page.on('pageerror', (error) => found.push(error.message));
  page.on('console', (message) => {
    // A refused request is logged by the browser itself.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) found.push(message.text());
  });
  return found;
}

/**
 * Opens pages for the tests of a file. After each test they are closed, and it fails if anything happened on one of them
 * that must not.
 */
export function watchedPages(): (browser: Browser, origin: string, options?: BrowserContextOptions) => Promise<Page> {
  const opened: { page: Page; found: string[] }[] = [];
  afterEach(async () => {
    const all = opened.splice(0);
    for (const { page } of all) await page.context().close();
    expect(all.flatMap(({ found }) => found)).toEqual([]);
  });
  return async (browser, origin, options) => {
    const page = await browser.newPage({ locale: 'en-GB', timezoneId: 'Europe/Berlin', ...options });
    opened.push({ page, found: watch(page, origin) });
    return page;
  };
}

/**
 * Holds back the requests to these URLs.
 * @param answer what becomes of each once it is released
 * @returns releases them
 */
export async function holdBack(
  page: Page,
  urls: string | RegExp,
  answer = (route: Route) => route.fallback(),
): Promise<() => void> {
  let release!: () => void;
  const released = new Promise<void>((resolve) => (release = resolve));
  await page.route(urls, (route) => released.then(() => answer(route)));
  return release;
}

/** Resolves when everything that the view asks for is shown. */
export async function settled(page: Page): Promise<void> {
  await page.waitForLoadState('networkidle');
  await page
    .getByText(/^Loading/)
    .first()
    .waitFor({ state: 'detached' });
}

/** With SCREENSHOTS (`npm run console:screenshots`): a picture, if docs/console.md shows it. */
export async function picture(page: Page, name: string, options: PageScreenshotOptions = {}): Promise<void> {
  const folder = process.env['SCREENSHOTS'];
  const file = `console-${name}.png`;
  if (folder === undefined || !readFileSync('docs/console.md', 'utf8').includes(`(${file})`)) return;
  await page.screenshot({ path: join(folder, file), ...options });
}

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const STANDARDS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

/** Violations of WCAG 2.2 AA and of what axe recommends beyond that, a line each. */
export async function violations(page: Page): Promise<string[]> {
  // The page begins to be shown after it counts as loaded.
  await page.getByRole('main').waitFor();
  await page.evaluate(AXE);
  return page.evaluate(async (standards) => {
    const { violations: found } = await (globalThis as any).axe.run({ runOnly: standards });
    return found.map(({ id, nodes }: any) => `${id}: ${nodes[0].html} ${nodes[0].failureSummary}`);
  }, STANDARDS);
}
