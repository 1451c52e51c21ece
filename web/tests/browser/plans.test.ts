// The pages about the plans of a study: by their dimensions, on the cluster, over time.
import { readFileSync } from 'node:fs';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { GetPlanResponse, GetStudyResponse } from '../../src/api/wire';
import { clusterFacts, clusterSpec, layoutOf } from '../../src/charts/cluster';
import { svgText } from '../../src/charts/drawing';
import { paletteOf } from '../../src/charts/palette';
import { textOf } from '../../src/text/text';
import { expectAccessible, launch, open, settle } from './browser';

const base = inject('filled');
let browser: Browser;
let place = '';

beforeAll(async () => {
  browser = await launch();
  const response = await fetch(new URL('v1/studies', base));
  const { studies } = (await response.json()) as { studies: { id: string; cluster_name: string }[] };
  const oldest = studies.filter(({ cluster_name }) => cluster_name === 'h100x2048').at(-1);
  place = `#/studies/${oldest?.id}`;
});
afterAll(() => browser.close());

const chosen = (page: Page) => page.getByRole('status').filter({ hasText: 'chosen' });

describe('the plans by their dimensions', () => {
  it('are chosen by controls, from the keyboard, and the address keeps the choice', async () => {
    const { page, faults, close } = await open(browser, base);
    await page.goto(`${base}${place}/dimensions`);
    await settle(page);
    expect(await chosen(page).innerText()).toBe('6 of 6 plans are chosen.');
    const expert = page.getByRole('group', { name: 'Expert parallelism', exact: true }).getByRole('checkbox');
    await expert.last().focus();
    await page.keyboard.press('Space');
    await expect.poll(() => chosen(page).innerText()).not.toContain('6 of 6');
    expect(page.url()).toContain('expert_parallel=');
    const most = page.getByRole('group', { name: 'Step time' }).getByRole('slider', { name: 'At most' });
    await most.focus();
    await page.keyboard.press('Home'); // the fastest plan alone, if it is among the chosen
    await expect.poll(() => page.url()).toContain('step_time_seconds=');
    await expect.poll(() => chosen(page).innerText()).toMatch(/^[01] of 6/);
    const said = await chosen(page).innerText();
    await page.reload();
    await settle(page);
    expect(await chosen(page).innerText()).toBe(said);
    await page.getByRole('button', { name: 'Choose all' }).click();
    await expect.poll(() => chosen(page).innerText()).toBe('6 of 6 plans are chosen.');
    expect(page.url()).not.toContain('expert_parallel');
    expect(faults).toEqual([]);
    await close();
  });

  it('are chosen by a brush along an axis', async () => {
    const { page, faults, close } = await open(browser, base);
    await page.goto(`${base}${place}/dimensions`);
    await settle(page);
    const box = await page.locator('.chart-canvas').first().boundingBox();
    if (!box) throw new Error('a chart');
    // The axis of the step time is the first: 48 pixels from the left, from 64 to 364 from above.
    const x = box.x + 48;
    await page.mouse.move(x, box.y + 300);
    await page.mouse.down();
    await page.mouse.move(x, box.y + 330, { steps: 3 });
    await page.mouse.move(x, box.y + 363, { steps: 3 });
    await page.mouse.up();
    await expect.poll(() => page.url()).toContain('step_time_seconds=');
    const [low = 0, high = 0] = (/step_time_seconds=([\d.]+)/.exec(page.url())?.[1] ?? '').split('..').map(Number);
    expect(low).toBeGreaterThan(0);
    expect(high).toBeGreaterThanOrEqual(low);
    expect(await chosen(page).innerText()).not.toContain('6 of 6');
    expect(faults).toEqual([]);
    await close();
  });

  it('are a table, and are saved with what is chosen', async () => {
    const { page, faults, close } = await open(browser, base, { acceptDownloads: true });
    await page.goto(`${base}${place}/dimensions`);
    await settle(page);
    await page.getByRole('button', { name: 'Show “Plans by their dimensions” as a table' }).click();
    const table = page.getByRole('table', { name: 'Plans by their dimensions' });
    expect(await table.getByRole('row').count()).toBe(7);
    await expectAccessible(page);
    for (const [form, content] of [['CSV', /^plan,is_chosen,/], ['SVG', /^<svg [^>]*width="/]] as const) {
      await page.getByText('Save', { exact: true }).first().click();
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('button', { name: form, exact: true }).first().click(),
      ]);
      expect(readFileSync(await download.path(), 'latin1')).toMatch(content);
    }
    expect(faults).toEqual([]);
    await close();
  });
});

describe('the cluster', () => {
  it('is drawn from the answer alone, the same on the page and in a file', async () => {
    const { page, faults, close } = await open(browser, base, { acceptDownloads: true });
    const study = (await (await fetch(new URL(`v1/${place.slice(2)}`, base))).json()) as GetStudyResponse;
    const second = study.result?.plans[1]?.plan;
    const cluster = study.question?.cluster;
    if (!second || !cluster) throw new Error('a second plan');
    const facts = clusterFacts(cluster, study.result?.applied_defaults ?? [], study.study?.device_count ?? 0);
    const layout = layoutOf(facts, second);
    if (!layout) throw new Error('a layout');
    const spec = clusterSpec(layout, textOf('en'));
    await page.goto(`${base}${place}/cluster`);
    await page.locator('.filters select').selectOption('2');
    await expect.poll(() => page.url()).toContain('rank=2');
    const figure = page.getByRole('figure', { name: 'Nodes and ranks' });
    await expect.poll(() => figure.locator('figcaption').innerText()).toBe(spec.sentence);
    await figure.getByText('Save', { exact: true }).click();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      figure.getByRole('button', { name: 'SVG', exact: true }).click(),
    ]);
    expect(readFileSync(await download.path(), 'utf8')).toBe(svgText(spec, paletteOf(false), true));
    await figure.getByText('Save', { exact: true }).click();
    const [picture] = await Promise.all([
      page.waitForEvent('download'),
      figure.getByRole('button', { name: 'PNG', exact: true }).click(),
    ]);
    expect(readFileSync(await picture.path(), 'latin1')).toMatch(/^.PNG/);
    await figure.getByRole('button', { name: /as a table/ }).click();
    expect(await figure.getByRole('row').count()).toBe(layout.kinds.length + 1);
    await expectAccessible(page);
    expect(faults).toEqual([]);
    await close();
  });
});

describe('the timeline of a plan', () => {
  it('is zoomed by buttons and keys, and the address keeps what is shown', async () => {
    const { page, faults, close } = await open(browser, base);
    await page.goto(`${base}${place}/timeline`);
    const figure = page.getByRole('figure', { name: 'The pipeline over time' });
    const sentence = figure.locator('figcaption');
    await sentence.waitFor();
    const id = place.slice('#/studies/'.length);
    const { plan } = (await (await fetch(new URL(`v1/studies/${id}/plans/1`, base))).json()) as GetPlanResponse;
    // The trace is of the same step as the estimate.
    expect(await sentence.innerText()).toContain(textOf('en').format.seconds(plan?.estimate?.step_time_seconds ?? 0));
    const whole = await figure.locator('svg').innerHTML();
    await figure.getByRole('button', { name: 'Zoom in' }).click();
    await expect.poll(() => page.url()).toContain('from=0.25&to=0.75');
    expect(await sentence.innerText()).toContain('Shown: ');
    await page.keyboard.press('+');
    await page.keyboard.press('ArrowRight');
    await expect.poll(() => page.url()).toContain('from=0.4375&to=0.6875');
    const shown = await sentence.innerText();
    await page.reload();
    await sentence.waitFor();
    expect(await sentence.innerText()).toBe(shown);
    await figure.getByRole('button', { name: 'Whole step' }).click();
    await expect.poll(() => page.url()).not.toContain('from=');
    expect(await figure.locator('svg').innerHTML()).toBe(whole);
    await figure.getByRole('button', { name: /as a table/ }).click();
    expect(await figure.getByRole('row').count()).toBe((plan?.plan?.pipeline_parallel ?? 0) + 1);
    await expectAccessible(page);
    expect(faults).toEqual([]);
    await close();
  });
});
