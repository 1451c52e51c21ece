// The pages for those who judge: predictions, runs, chips and operations.
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { launch, open, settle } from './browser';

const base = inject('filled');
let browser: Browser;

beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

describe('predictions', () => {
  it('are filtered by the address, and do not count what was retracted', async () => {
    const { page, faults, close } = await open(browser, base);
    await page.goto(`${base}#/quality?source=job_report`);
    await settle(page);
    const counted = page.locator('.tile', { hasText: 'Runs that count' }).locator('dd').first();
    const retracted = page.locator('.tile', { hasText: 'Retracted' }).locator('dd').first();
    // scripts/demo.sh reports 12 runs that ran, a failure, and one that it retracts.
    expect(await counted.innerText()).toBe('12');
    expect(await retracted.innerText()).toBe('1');
    await page.locator('.filters select').first().selectOption('nvidia-h100-sxm5-80gb');
    await expect.poll(() => counted.innerText()).toBe('5');
    expect(page.url()).toContain('chip=nvidia-h100-sxm5-80gb');
    await page.reload();
    await settle(page);
    expect(await counted.innerText()).toBe('5');
    expect(faults).toEqual([]);
    await close();
  });
});

describe('runs', () => {
  it('show why a measurement was retracted, in the list and by itself', async () => {
    const { page, faults, close } = await open(browser, base);
    await page.goto(`${base}#/runs`);
    await page.getByLabel('Retracted').selectOption({ label: 'yes' });
    const rows = page.locator('tbody tr');
    await expect.poll(() => rows.count()).toBe(1);
    expect(await rows.first().innerText()).toContain('another unit than seconds');
    await rows.first().getByRole('link').click();
    await page.getByRole('heading', { name: 'This measurement was retracted' }).waitFor();
    await page.getByRole('link', { name: 'Open its study' }).click();
    await page.getByRole('heading', { name: 'llama2-70b on a100x128' }).waitFor();
    expect(faults).toEqual([]);
    await close();
  });
});
