// The pages about several pools, several studies and several sizes.
import { readFileSync } from 'node:fs';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { GetStudyResponse } from '../../src/api/wire';
import { textOf } from '../../src/text/text';
import { expectAccessible, launch, open, settle, wordsOf } from './browser';

const base = inject('filled');
const { format } = textOf('en');
let browser: Browser;
/** Ids of studies by cluster, the oldest of each. */
const ids: Record<string, string> = {};

beforeAll(async () => {
  browser = await launch();
  const response = await fetch(new URL('v1/studies', base));
  const { studies } = (await response.json()) as { studies: { id: string; cluster_name: string }[] };
  for (const { id, cluster_name } of studies) ids[cluster_name] = id;
});
afterAll(() => browser.close());

const answerOf = async (cluster: string) =>
  (await (await fetch(new URL(`v1/studies/${ids[cluster]}`, base))).json()) as GetStudyResponse;

describe('the pools of a mixed cluster', () => {
  it('are compared, and each plan shows what they hold', async () => {
    const answer = (await answerOf('a100x64+h100x64')).result?.heterogeneous;
    if (!answer) throw new Error('a mix');
    const { page, faults, close } = await open(browser, base, { acceptDownloads: true });
    await page.goto(`${base}#/studies/${ids['a100x64+h100x64']}`);
    await page.getByRole('link', { name: 'What each pool holds, and why' }).click();
    await settle(page);
    expect(await wordsOf(page)).toContain(answer.mix_verdict === 'mix' ? 'Mix the pools' : 'Do not mix');
    const sets = page.getByRole('figure', { name: 'The fastest plan of each set of pools' });
    expect(await sets.locator('figcaption').innerText()).toContain(format.percent(answer.efficiency_ratio));
    await sets.getByRole('button', { name: /as a table/ }).click();
    expect(await sets.getByRole('row').count()).toBe(answer.best_by_pool_set.length + 1);
    await sets.getByText('Save', { exact: true }).click();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      sets.getByRole('button', { name: 'CSV', exact: true }).click(),
    ]);
    expect(readFileSync(await download.path(), 'utf8')).toMatch(/^pools,tokens_per_second,/);
    // The first plan mixes; the time of its stages comes from the server.
    const times = page.getByRole('figure', { name: 'Time of each stage' });
    expect(await times.locator('figcaption').innerText()).toMatch(/on ampere, .*on hopper/);
    await page.locator('.filters select').selectOption({ index: 1 });
    await expect.poll(() => page.url()).toContain('plan=');
    await settle(page);
    await expectAccessible(page);
    expect(faults).toEqual([]);
    await close();
  });
});

describe('a plan whose replicas differ', () => {
  it('shows its groups, the links between their pools and the idle nodes, also as tables', async () => {
    const id = ids['a100x32+910bx32'];
    const { page, faults, close } = await open(browser, base, { acceptDownloads: true });
    await page.goto(`${base}#/studies/${id}`);
    await page.getByRole('link', { name: 'Baseline' }).first().click();
    await settle(page);
    const layers = page.getByRole('figure', { name: 'Layers of each stage' });
    expect(await layers.locator('figcaption').innerText()).toMatch(/form 2 groups, and each replica has all 80 layers/);
    await layers.getByRole('button', { name: /as a table/ }).click();
    expect(await layers.getByRole('row').count()).toBe(1 + 8 + 6);
    expect(await layers.getByRole('row', { name: /^Group 2, stage 6/ }).innerText()).toMatch(/nv\s+1\s+4\s+4\s+4\s+1\s+1\s+1\s+272\s+14/);
    const figures = page.getByRole('figure', { name: 'A micro-batch on each stage' });
    await figures.getByText('Save', { exact: true }).click();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      figures.getByRole('button', { name: 'CSV', exact: true }).click(),
    ]);
    const csv = readFileSync(await download.path(), 'utf8');
    const stages = (await answerOf('a100x32+910bx32')).result?.baseline?.estimate?.stages ?? [];
    expect(csv.split('\r\n')[14]).toContain(`nv,${stages[13]?.forward_seconds}`);
    const use = page.getByRole('figure', { name: 'Nodes of each pool' });
    expect(await use.locator('figcaption').innerText()).toBe('Baseline uses 7 of 8 nodes. Idle: 1 of nv.');

    await page.goto(`${base}#/studies/${id}/cluster?rank=0`);
    await settle(page);
    const links = page.getByRole('figure', { name: 'Links between pools' });
    expect(await links.locator('figcaption').innerText()).toBe(
      'The link between the pools, nv – ascend, has 12.5\u00a0GB/s a node. Through the memory of the hosts: nv – ascend.',
    );
    await links.getByRole('button', { name: /as a table/ }).click();
    expect(await links.getByRole('row').last().innerText()).toMatch(/nv\s+ascend\s+12.5.GB\/s\s+50.0.µs\s+through hosts\s+for this pair/);
    expect(await page.getByRole('figure', { name: 'Nodes and ranks' }).locator('figcaption').innerText()).toContain('1 node is idle.');
    await page.goto(`${base}#/studies/${id}/timeline?rank=0`);
    await page.getByText('These are the stages of the slowest replica, which is in group').waitFor();
    expect(faults).toEqual([]);
    await close();
  });
});

describe('studies side by side', () => {
  it('are chosen in the list, added, left out and linked to', async () => {
    const { page, faults, close } = await open(browser, base);
    await page.goto(base);
    for (const cluster of ['a100x128', 'a100x64+h100x64']) {
      await page.getByRole('checkbox', { name: `Choose ${ids[cluster]} to compare` }).check();
    }
    await page.getByRole('link', { name: 'Compare studies' }).click();
    await settle(page);
    expect(page.url()).toContain(`#/compare/${ids['a100x128']}/${encodeURIComponent(ids['a100x64+h100x64'] ?? '')}`);
    const figures = page.getByRole('table', { name: 'The plans to launch' });
    const step = await figures.getByRole('row', { name: /^Step time/ }).innerText();
    for (const cluster of ['a100x128', 'a100x64+h100x64']) {
      const { result } = await answerOf(cluster);
      expect(step).toContain(format.seconds(result?.plans[0]?.estimate?.step_time_seconds ?? 0));
    }
    const questions = page.getByRole('table', { name: 'What the questions state differently' });
    expect(await questions.innerText()).toContain('cluster.pools[1].chip');
    await page.getByLabel('Add a study').selectOption(ids['h100x8'] ?? '');
    await expect.poll(() => page.url()).toContain(ids['h100x8']);
    await settle(page);
    expect(await wordsOf(page)).toContain('No plan fits');
    expect(await wordsOf(page)).toContain('A step is not the same work');
    await expectAccessible(page);
    await page.getByRole('link', { name: /^Leave out deepseek/ }).click();
    await expect.poll(() => page.url()).not.toContain(ids['h100x8']);
    expect(faults).toEqual([]);
    await close();
  });
});

describe('the question of a study at several sizes', () => {
  it('is asked for numbers of nodes, and keeps nothing', async () => {
    const { page, faults, close } = await open(browser, base);
    await page.goto(`${base}#/studies/${ids['a100x32']}/scaling`);
    await page.getByRole('textbox', { name: 'Number of nodes' }).fill('4, x');
    await page.getByRole('button', { name: 'Ask' }).click();
    expect(page.url()).not.toContain('values=');
    await page.getByRole('textbox', { name: 'Number of nodes' }).fill('4, 2');
    await page.getByRole('button', { name: 'Ask' }).click();
    const chart = page.getByRole('figure', { name: 'Throughput by the number of nodes' });
    await chart.waitFor();
    expect(page.url()).toContain('values=2%2C4');
    await chart.getByRole('button', { name: /as a table/ }).click();
    expect(await chart.getByRole('row').count()).toBe(3);
    const cost = page.getByRole('figure', { name: 'Step time against cost' });
    await cost.getByRole('button', { name: /as a table/ }).click();
    expect(await cost.getByRole('row').first().innerText()).toMatch(/Device-hours for a billion tokens/);
    expect(await cost.getByRole('row').count()).toBeGreaterThan(2);
    // The flags belong to the point that is chosen.
    await page.getByRole('combobox', { name: 'Plan for' }).selectOption('4');
    await expect.poll(() => page.url()).toContain('point=4');
    expect(await page.locator('#launch').innerText()).toContain('--nnodes 4');
    await settle(page);
    await expectAccessible(page);
    const { studies } = (await (await fetch(new URL('v1/studies', base))).json()) as { studies: unknown[] };
    expect(studies.length).toBe(9);
    expect(faults).toEqual([]);
    await close();
  });

  it('is asked for numbers of nodes of one of several pools', async () => {
    const { page, faults, close } = await open(browser, base);
    await page.goto(`${base}#/studies/${ids['a100x64+h100x64']}/scaling`);
    await page.getByRole('combobox', { name: 'Pool' }).selectOption('hopper');
    await page.getByRole('textbox', { name: 'Nodes of hopper' }).fill('1, 8');
    await page.getByRole('button', { name: 'Ask' }).click();
    const chart = page.getByRole('figure', { name: 'Throughput by the number of nodes of hopper' });
    await chart.waitFor();
    expect(page.url()).toContain('pool=hopper');
    await chart.getByRole('button', { name: /as a table/ }).click();
    // 8 nodes of ampere and 1 or 8 of hopper, with 8 devices each.
    expect(await chart.locator('tbody tr td:first-of-type').allInnerTexts()).toEqual(['72', '128']);
    expect(await page.getByRole('figure', { name: 'Step time against cost' }).count()).toBe(0);
    await settle(page);
    await expectAccessible(page);
    expect(faults).toEqual([]);
    await close();
  });

  it('is asked for sequence lengths by a link alone', async () => {
    const { page, faults, close } = await open(browser, base, { colorScheme: 'dark', locale: 'zh-CN' });
    await page.goto(`${base}#/studies/${ids['a100x128']}/scaling?over=sequence&values=4096,8192`);
    const chart = page.locator('figure.chart');
    await chart.waitFor();
    await settle(page);
    expect(await chart.locator('figcaption').innerText()).toContain('8,192');
    expect(await wordsOf(page)).not.toMatch(/undefined|NaN|\[object/);
    await expectAccessible(page);
    expect(faults).toEqual([]);
    await close();
  });
});
