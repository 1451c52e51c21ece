// A page that notes everything that must not happen: errors of the console, requests to others.
import axe from 'axe-core';
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core';
import { expect } from 'vitest';

export function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env['MESHWRIGHT_CHROMIUM'] ?? '/usr/bin/chromium',
    args: [
      '--no-sandbox', // the tests may run as root
      '--disable-gpu',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}

/** Milliseconds after which something that was waited for does not come: long, for busy cores. */
const waitingEnds = 120_000;

export interface Watched {
  page: Page;
  /** Things that must not happen; tests expect none. */
  faults: string[];
  close: () => Promise<void>;
}

export async function open(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<Watched> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, locale: 'en-US', ...options });
  context.setDefaultTimeout(waitingEnds);
  const page = await context.newPage();
  const faults: string[] = [];
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) faults.push(`${message.type()}: ${message.text()}`);
  });
  page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
  page.on('request', (request) => {
    const target = request.url();
    if (!target.startsWith(url) && !target.startsWith('blob:')) faults.push(`request: ${target}`);
  });
  return { page, faults, close: () => context.close() };
}

/** Waits until nothing is loading, and every chart and every row is drawn. */
export async function settle(page: Page): Promise<void> {
  await page.waitForFunction(
    () =>
      document.querySelector('main h1, main h2') !== null &&
      document.querySelector('main p.quiet[role=status]') === null &&
      document.querySelector('main [aria-busy=true]') === null &&
      [...document.querySelectorAll<HTMLElement>('.chart-canvas')].every((chart) => chart.dataset['drawn']),
  );
}

/** Returns what the page says, without what jobs' commands have in braces. */
export async function wordsOf(page: Page): Promise<string> {
  return (await page.locator('main').innerText()).replaceAll('{micro_batch_size}', '');
}

/** Expects that axe finds nothing. The script is injected past the page's own policy. */
export async function expectAccessible(page: Page): Promise<void> {
  await page.evaluate(axe.source);
  const found = await page.evaluate(async () => {
    const results = await (globalThis as unknown as { axe: typeof axe }).axe.run(document, {
      runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
    });
    return results.violations.map(
      ({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target.join(' ')).join('; ')}`,
    );
  });
  expect(found).toEqual([]);
}
