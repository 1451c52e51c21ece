// A study of 100,000 trials in a real store: it comes in pages, and nothing of it is lost.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { ListTrialsResponse } from '../../src/api/wire';
import { expectAccessible, launch, open, settle } from './browser';
import { addTrials, root, serve, stop } from './server';

const count = 100_000;
const bin = inject('bin');
const history = join(inject('folder'), 'many.db');
let browser: Browser;
let server: Awaited<ReturnType<typeof serve>>;
let id = '';

beforeAll(async () => {
  id = addTrials(history, inject('folder'));
  execFileSync(join(root, 'bench/many_trials.py'), [history, id, String(count)]);
  server = await serve(bin, 'meshwright', ['--db', history, 'dashboard', '--http', '127.0.0.1:0']);
  browser = await launch();
}, 240_000);
afterAll(async () => {
  await browser.close();
  await stop(server.process);
});

async function pageOf(query: string): Promise<ListTrialsResponse> {
  const answer = await fetch(new URL(`v1/studies/${id}/trials?${query}`, server.url));
  expect(answer.status).toBe(200);
  return (await answer.json()) as ListTrialsResponse;
}

describe('a study of 100,000 trials', { timeout: 240_000 }, () => {
  it('comes from the server in pages that lose and repeat nothing', async () => {
    let next = 1;
    let token = '';
    do {
      const { trials, next_page_token } = await pageOf(`page_size=1000&page_token=${encodeURIComponent(token)}`);
      expect(trials.length).toBeLessThanOrEqual(1000);
      for (const { number } of trials) {
        if (number !== next) throw new Error(`trial ${number} comes where trial ${next} is expected`);
        next += 1;
      }
      token = next_page_token;
    } while (token !== '');
    expect(next - 1).toBe(count);
  });

  it('is shown page by page, and the address says which', async () => {
    const { page, faults, close } = await open(browser, server.url);
    const asked: string[] = [];
    page.on('request', (request) => {
      if (request.url().includes(`v1/studies/${id}/trials`)) asked.push(request.url());
    });
    await page.goto(`${server.url}#/studies/${id}/trials`);
    await settle(page);
    const rows = page.locator('main tbody tr');
    expect(await rows.count()).toBe(200);
    expect(asked.length).toBe(1); // one page, and not all of them
    expect(asked[0]).toContain('page_size=200');
    await page.getByRole('link', { name: 'Next page' }).click();
    await expect.poll(() => rows.first().getByRole('link').innerText()).toBe('201');
    await settle(page); // the rows are drawn some at a time
    expect(await rows.last().getByRole('link').innerText()).toBe('400');
    await page.reload();
    await settle(page);
    expect(await rows.first().getByRole('link').innerText()).toBe('201');
    await page.getByRole('link', { name: 'First page' }).click();
    await expect.poll(() => rows.first().getByRole('link').innerText()).toBe('1');
    await settle(page);
    await expectAccessible(page);
    expect(faults).toEqual([]);
    await close();
  });

  it('is found by outcome and by speed, and has a page for its last trial', async () => {
    const { page, faults, close } = await open(browser, server.url);
    await page.goto(`${server.url}#/studies/${id}/trials?order=fastest`);
    await settle(page);
    const { trials } = await pageOf('page_size=1&order=fastest');
    const rows = page.locator('main tbody tr');
    expect(await rows.first().getByRole('link').innerText()).toBe(String(trials[0]?.number));
    await page.getByLabel('Order').selectOption('');
    await page.getByLabel('Outcome').selectOption('oom');
    await expect.poll(() => page.locator('.badge.trial-oom').count()).toBe(200);
    expect(await page.locator('.badge.trial-ok').count()).toBe(0);
    await page.goto(`${server.url}#/studies/${id}/trials/${count}`);
    await page.getByRole('heading', { name: /^Trial 100,?000/ }).waitFor();
    expect(faults).toEqual([]);
    await close();
  });
});
