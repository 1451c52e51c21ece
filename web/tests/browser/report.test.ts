// The file that holds a study: from the program and from the dashboard, opened without a server.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { expectAccessible, launch, open, settle, wordsOf } from './browser';
import { serve, stop } from './server';

const bin = inject('bin');
const folder = inject('folder');
const history = join(folder, 'history.db');
let browser: Browser;
/** Ids of studies by cluster, the oldest of each. */
const ids: Record<string, string> = {};

function write(cluster: string): string {
  const file = join(folder, `${cluster}.html`);
  execFileSync(join(bin, 'meshwright'), [
    '--db', history, 'report', ids[cluster] ?? '', '--html', file, '--replace',
  ]);
  return file;
}

beforeAll(async () => {
  browser = await launch();
  const response = await fetch(new URL('v1/studies', inject('filled')));
  const { studies } = (await response.json()) as { studies: { id: string; cluster_name: string }[] };
  for (const { id, cluster_name } of studies) ids[cluster_name] = id;
});
afterAll(() => browser.close());

describe('the file of a study', () => {
  const pages: [string, string, string][] = [
    ['decision', 'h100x2048', ''],
    ['search', 'h100x2048', '/search'],
    ['plans', 'h100x2048', '/plans'],
    ['plan', 'h100x2048', '/plans/2'],
    ['dimensions', 'h100x2048', '/dimensions'],
    ['cluster', 'h100x2048', '/cluster'],
    ['compare', 'h100x2048', '/compare'],
    ['pools', 'a100x64+h100x64', '/pools'],
    ['plan of a mix', 'a100x64+h100x64', '/plans/1'],
    ['nothing fits', 'h100x8', ''],
    ['trials', 'two-cores', '/trials'],
    ['trial', 'two-cores', '/trials/2'],
  ];
  it.each(pages)('shows "%s" without a server or a request', async (_, cluster, rest) => {
    const url = pathToFileURL(write(cluster)).href;
    const { page, faults, close } = await open(browser, url, { colorScheme: rest === '' ? 'light' : 'dark' });
    await page.goto(rest === '' ? url : `${url}#/studies/${ids[cluster]}${rest}`);
    await settle(page);
    await expectAccessible(page);
    expect(await wordsOf(page)).not.toMatch(/undefined|NaN|\[object|\{\w+\}/);
    expect(await page.locator('.note-box.bad').count()).toBe(0);
    expect(await page.locator('.foot').innerText()).toContain(ids[cluster]);
    expect(faults).toEqual([]);
    await close();
  });

  it('runs no code but its own, whatever an answer holds', async () => {
    const file = join(folder, 'attacked.html');
    const text = readFileSync(write('h100x2048'), 'utf8');
    writeFileSync(file, text.replace('</body>', '<script>document.title = "taken"</script></body>'));
    const page = await (await browser.newContext()).newPage();
    await page.goto(pathToFileURL(file).href);
    await page.locator('main h1').waitFor();
    expect(await page.title()).toContain('Meshwright');
    await page.context().close();
  });

  it('is the same from the dashboard as from the program', async () => {
    const server = await serve(bin, 'meshwright', ['--db', history, 'dashboard', '--http', '127.0.0.1:0']);
    const { page, faults, close } = await open(browser, server.url, { acceptDownloads: true });
    await page.goto(`${server.url}#/studies/${ids['a100x128']}`);
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Save as one file' }).click(),
    ]);
    expect(download.suggestedFilename()).toBe(`${ids['a100x128']}.html`);
    expect(readFileSync(await download.path(), 'utf8')).toBe(readFileSync(write('a100x128'), 'utf8'));
    expect(faults).toEqual([]);
    await close();
    await stop(server.process);
  });
});
