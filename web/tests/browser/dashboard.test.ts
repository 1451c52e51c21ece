import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { expectAccessible, launch, open, settle, wordsOf } from './browser';
import { root, serve, stop } from './server';

const base = inject('filled');
const bin = inject('bin');
const folder = inject('folder');
let browser: Browser;
/** Ids of studies by cluster; "trials": the one that ran plans. */
const ids: Record<string, string> = {};

beforeAll(async () => {
  browser = await launch();
  const response = await fetch(new URL('v1/studies', base));
  const { studies } = (await response.json()) as { studies: { id: string; cluster_name: string }[] };
  for (const { id, cluster_name } of studies.reverse()) {
    ids[ids[cluster_name] === undefined ? cluster_name : 'trials'] = id;
  }
  const marked = await fetch(new URL('v1/measurements?filter.is_retracted=true', base));
  ids['retracted'] = ((await marked.json()) as { measurements: { id: string }[] }).measurements[0]?.id ?? '';
});
afterAll(() => browser.close());

const study = (name: string, rest = '') => `#/studies/${ids[name]}${rest}`;
const mix = 'a100x64+h100x64';
const vendors = 'a100x32+910bx32'; // its baseline has groups of replicas, parts of nodes and an idle node
const pages: [string, () => string][] = [
  ['overview', () => '#/'],
  ['decision', () => study('h100x2048')],
  ['decision after trials', () => study('trials')],
  ['nothing fits', () => study('h100x8')],
  ['search', () => study('h100x2048', '/search')],
  ['plans', () => study('a100x128', '/plans')],
  ['plan', () => study('a100x128', '/plans/2')],
  ['trials', () => study('trials', '/trials')],
  ['predictions', () => '#/quality?by=version'],
  ['runs', () => '#/runs'],
  ['gains', () => '#/runs/gains'],
  ['retracted run', () => `#/runs/${ids['retracted']}`],
  ['chips', () => '#/chips'],
  ['chip', () => '#/chips/nvidia-a100-sxm4-80gb'],
  ['two chips', () => '#/chips/nvidia-a100-sxm4-80gb?with=huawei-ascend-910b-376t'],
  ['no such chip', () => '#/chips/nothing'],
  ['operations', () => '#/operations'],
  ['callers', () => '#/operations/calls'],
  ['ask', () => '#/ask'],
  ['ask again', () => `#/ask?from=${ids['a100x128']}`],
  ['dimensions', () => study('a100x128', '/dimensions?micro_batch_size=1')],
  ['dimensions of nothing', () => study('h100x8', '/dimensions')],
  ['cluster', () => study('h100x2048', '/cluster')],
  ['cluster without a plan', () => study('h100x8', '/cluster')],
  ['decision of a mix', () => study(mix)],
  ['plans of a mix', () => study(mix, '/plans')],
  ['plan of a mix', () => study(mix, '/plans/1')],
  ['dimensions of a mix', () => study(mix, '/dimensions')],
  ['compare a mix', () => study(mix, '/compare')],
  ['cluster of a mix', () => study(mix, '/cluster')],
  ['timeline of a mix', () => study(mix, '/timeline')],
  ['search of a mix', () => study(mix, '/search')],
  ['pools of a mix', () => study(mix, '/pools')],
  ['ask a mix again', () => `#/ask?from=${ids[mix]}`],
  ['pools without a mix', () => study('a100x8+h100x64', '/pools?plan=ampere%2Bhopper')],
  ['cluster without a mix', () => study('a100x8+h100x64', '/cluster')],
  ['decision of two vendors', () => study(vendors)],
  ['plan whose replicas differ', () => study(vendors, '/plans/0')],
  ['pools of replicas that differ', () => study(vendors, '/pools?plan=0')],
  ['nodes of replicas that differ', () => study(vendors, '/cluster?rank=0')],
  ['timeline of replicas that differ', () => study(vendors, '/timeline?rank=0')],
  ['compare with replicas that differ', () => study(vendors, '/compare?first=1&second=0')],
  ['ask with a third pool', () => `#/ask?from=${ids[vendors]}&pools=3&name3=more`],
  ['pools of one pool', () => study('a100x128', '/pools')],
  ['studies side by side', () => `#/compare/${ids['a100x128']}/${ids[mix]}/${ids['h100x8']}`],
  ['no studies to compare', () => '#/compare'],
  ['scaling', () => study('a100x32', '/scaling')],
  ['timeline', () => study('a100x128', '/timeline?from=0.1&to=0.2')],
  ['compare', () => study('a100x128', '/compare?first=1&second=3')],
  ['compare nothing', () => study('h100x8', '/compare')],
  ['trial that ran', () => study('two-cores', '/trials/1')],
  ['trial that failed', () => study('two-cores', '/trials/2')],
  ['replayed trial', () => study('trials', '/trials/1')],
  ['no such rank', () => study('a100x128', '/plans/99')],
  ['no such page', () => '#/nothing'],
];

describe.each([
  ['light', 'en-US'],
  ['dark', 'zh-CN'],
] as const)('in the %s theme and %s', (colorScheme, locale) => {
  it.each(pages)('the page "%s" is sound', async (_, place) => {
    const { page, faults, close } = await open(browser, base, { colorScheme, locale });
    await page.goto(base + place());
    await settle(page);
    await expectAccessible(page);
    expect(await wordsOf(page)).not.toMatch(/undefined|NaN|\[object|\{\w+\}/);
    expect(await page.getAttribute('html', 'lang')).toBe(locale === 'en-US' ? 'en' : 'zh-CN');
    expect(faults).toEqual([]);
    await close();
  });
});

it('a trial that is not there is said so', async () => {
  const { page, faults, close } = await open(browser, base);
  await page.goto(base + study('trials', '/trials/99'));
  await page.getByRole('heading', { name: 'This study has no trial 99.' }).waitFor();
  await expectAccessible(page);
  // Chromium tells of each answer that is an error.
  expect(faults).toEqual(['error: Failed to load resource: the server responded with a status of 404 (Not Found)']);
  await close();
});

describe('somebody who has never seen it', () => {
  // The click path of docs/dashboard.md.
  it('finds the plan to launch, its flags, and why the runner-up lost', async () => {
    const { page, faults, close } = await open(browser, base, {
      permissions: ['clipboard-read', 'clipboard-write'],
    });
    await page.goto(base);
    await page.getByRole('link', { name: 'deepseek-v3' }).last().click();
    await page.getByRole('heading', { name: 'Launch this plan' }).waitFor();
    await page.getByRole('link', { name: 'Show the launch flags' }).click();
    await page.keyboard.press('Enter'); // the button to copy has the focus
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    const answer = (await (await fetch(new URL(`v1/studies/${ids['h100x2048']}`, base))).json()) as {
      result: { plans: { exports: Record<string, string>; launches: Record<string, { command: string }> }[] };
    };
    const first = answer.result.plans[0];
    expect(copied).toBe(
      `${first?.launches['megatron-core']?.command} \\\n${first?.exports['megatron-core']?.trimEnd()}`,
    );
    const why = page.getByRole('figure', { name: /Why Plan 2 differs from Plan 1/ });
    expect(await why.locator('figcaption').innerText()).toMatch(/^Plan 2 .* (than|less than) Plan 1: /);
    await why.getByLabel('Compare with').selectOption({ label: 'Baseline' });
    await page.getByRole('figure', { name: /Why Baseline differs/ }).waitFor();
    expect(page.url()).toContain('against=0');
    expect(faults).toEqual([]);
    await close();
  });
});

describe('the overview', () => {
  it('keeps its filters in the address', async () => {
    const { page, close } = await open(browser, base);
    const rows = page.locator('tbody tr');
    await page.goto(base);
    await expect.poll(() => rows.count()).toBe(9);
    await page.getByLabel('Search').fill('DEEPSEEK');
    await page.keyboard.press('Enter');
    await expect.poll(() => rows.count()).toBe(2);
    await page.getByLabel('Outcome').selectOption('no_feasible_plan');
    await expect.poll(() => rows.count()).toBe(1);
    expect(page.url()).toContain('text=DEEPSEEK');
    await page.reload();
    await expect.poll(() => rows.count()).toBe(1);
    expect(await page.getByLabel('Search').inputValue()).toBe('DEEPSEEK');
    await page.getByLabel('State').selectOption('failed');
    await page.getByRole('link', { name: 'Show all studies' }).click();
    await expect.poll(() => rows.count()).toBe(9);
    await close();
  });

  it('finds studies by chip and label', async () => {
    const { page, faults, close } = await open(browser, base);
    const rows = page.locator('tbody tr');
    await page.goto(base);
    await page.getByRole('combobox', { name: 'Chip', exact: true }).selectOption('nvidia-h100-sxm5-80gb');
    await expect.poll(() => rows.count()).toBe(4); // h100x8, h100x2048 and two clusters with a pool of them
    await page.getByRole('combobox', { name: 'Chip', exact: true }).selectOption('');
    // A label of a row leads to the studies that have it, too.
    await page.getByRole('link', { name: 'team=vision' }).click();
    await expect.poll(() => rows.count()).toBe(1);
    expect(page.url()).toContain('label=team%3Dvision');
    await page.getByLabel('Label', { exact: true }).fill('reviewed, team=vision');
    await page.keyboard.press('Enter');
    await expect.poll(() => page.url()).toContain('label=reviewed');
    await settle(page); // the rows of the new filters have come
    expect(await rows.count()).toBe(1);
    await page.getByLabel('Label', { exact: true }).fill('team=language');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'No study matches the filters.' }).waitFor();
    await page.getByLabel('Label', { exact: true }).fill('team==');
    await page.keyboard.press('Enter');
    await page.getByText('“team==” is not a label').waitFor();
    await expectAccessible(page);
    expect(faults).toEqual([]);
    await close();
  });

  it('says how to begin when nothing has been asked', async () => {
    const empty = inject('empty');
    const { page, faults, close } = await open(browser, empty);
    await page.goto(empty);
    await page.getByRole('heading', { name: 'No study has been kept yet.' }).waitFor();
    await expectAccessible(page);
    expect(faults).toEqual([]);
    await close();
  });
});

describe('a chart', () => {
  it('is a table for those who want one, from the keyboard', async () => {
    const { page, close } = await open(browser, base);
    await page.goto(base + study('a100x128', '/search'));
    await settle(page);
    await page.getByRole('button', { name: 'Show “Plans that each rule removed” as a table' }).focus();
    await page.keyboard.press('Enter');
    const table = page.getByRole('table', { name: 'Plans that each rule removed' });
    expect(await table.getByRole('row').first().innerText()).toMatch(/Step\s+Plans\s+Share of all/);
    await expectAccessible(page);
    await close();
  });

  it.each([
    ['CSV', /^step,plan_count,share_of_space_ratio\r\nspace,\d+,1\r\n/],
    ['JSON', /^\[\n {2}\{\n {4}"step": "space"/],
    ['SVG', /^<svg [^>]*width="960"/],
    ['PNG', /^.PNG/],
  ])('is saved as %s', async (form, content) => {
    const { page, faults, close } = await open(browser, base, { acceptDownloads: true });
    await page.goto(base + study('a100x128', '/search'));
    await settle(page);
    await page.getByText('Save', { exact: true }).first().click();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: form, exact: true }).click(),
    ]);
    expect(download.suggestedFilename()).toBe(`prune-funnel.${form.toLowerCase()}`);
    expect(readFileSync(await download.path(), 'latin1')).toMatch(content);
    expect(faults).toEqual([]);
    await close();
  });
});

describe('a study that runs', () => {
  it('is followed live, also across a restart of the server', async () => {
    const history = join(folder, 'live.db');
    const socket = `unix:${join(folder, 'live.sock')}`;
    const start = (http: string) => serve(bin, 'meshwrightd', ['--db', history, '--listen', socket, '--http', http]);
    let server = await start('127.0.0.1:0');
    const example = join(root, 'examples/llama2-70b');
    execFileSync(join(bin, 'meshwright'), [
      '--server', socket, 'study', 'create', '--study-id', 'live', '--model', join(example, 'config.json'),
      '--workload', join(example, 'workload.json'), '--cluster', join(example, 'cluster.json'),
      '--strategy', 'mcmc', '--evaluations', '100000000',
    ]);
    const { page, close } = await open(browser, server.url);
    await page.goto(`${server.url}#/studies/live`);
    await page.getByText('live', { exact: true }).waitFor();
    const events = page.locator('.events li');
    await expect.poll(() => events.count()).toBeGreaterThan(3);
    const before = await events.count();

    const { host } = new URL(server.url);
    await stop(server.process);
    await page.getByText('connection lost, trying again').waitFor();
    server = await start(host);
    await page.getByText('live', { exact: true }).waitFor();
    await expect.poll(() => events.count()).toBeGreaterThan(before);
    await expect.poll(() => page.getByText('The study is now: interrupted').count()).toBe(1);
    // Nothing is missed or repeated: the revisions go down in steps of one.
    const revisions = await events.evaluateAll((items) => items.map((item) => (item as HTMLLIElement).value));
    expect(revisions).toEqual(revisions.map((_, at) => (revisions[0] ?? 0) - at));

    execFileSync(join(bin, 'meshwright'), ['--server', socket, 'study', 'cancel', 'live']);
    // The page of a study that has ended shows what was decided; the events are on their own page.
    await expect.poll(() => page.locator('.study-head .badge').innerText()).toBe('cancelled');
    await page.goto(`${server.url}#/studies/live/search`);
    await page.getByText('the study has ended').waitFor();
    await close();
    await stop(server.process);
  });
});

// The server ends a connection that falls 4,096 events behind, and the browser comes back for the rest.
describe('a study with 5,000 events', { timeout: 240_000 }, () => {
  it('is replayed whole, and followed across a restart, with no gap and no repeat', async () => {
    const history = join(folder, 'events.db');
    const socket = `unix:${join(folder, 'events.sock')}`;
    const start = (http: string) => serve(bin, 'meshwrightd', ['--db', history, '--listen', socket, '--http', http]);
    const run = (...args: string[]) => execFileSync(join(bin, 'meshwright'), ['--server', socket, ...args]);
    let server = await start('127.0.0.1:0');
    const example = join(root, 'examples/llama2-70b');
    run(
      'study', 'create', '--study-id', 'long', '--model', join(example, 'config.json'), '--workload',
      join(example, 'workload.json'), '--cluster', join(example, 'cluster.json'), '--strategy', 'mcmc',
      '--evaluations', '100000000',
    );
    const { page, close } = await open(browser, server.url);
    await page.goto(`${server.url}#/studies/long`);
    await expect.poll(() => page.locator('.events li').count()).toBeGreaterThan(3); // it has told of its progress
    await close();
    await stop(server.process);
    execFileSync(join(root, 'bench/many_events.py'), [history, 'long', '5000']);
    server = await start(new URL(server.url).host);

    // A new page hears all of it; what it hears is noted beside what it shows.
    const heard = await open(browser, server.url);
    await heard.page.addInitScript(() => {
      const revisions: number[] = [];
      Object.assign(globalThis, { revisions });
      const plain = globalThis.EventSource;
      globalThis.EventSource = class extends plain {
        constructor(...args: ConstructorParameters<typeof plain>) {
          super(...args);
          // Another stream, which begins where the page was loaded, tells of the study's state only.
          if (String(args[0]).includes('after_revision')) return;
          this.addEventListener('message', ({ lastEventId }) => revisions.push(Number(lastEventId)));
        }
      };
    });
    const revisions = () => heard.page.evaluate(() => (globalThis as unknown as { revisions: number[] }).revisions);
    const newest = () => heard.page.locator('.events li').first().evaluate((item) => (item as HTMLLIElement).value);
    await heard.page.goto(`${server.url}#/studies/long/search`);
    await heard.page.getByText(/^The newest 200 of 5,\d+ events are listed\.$/).waitFor();
    expect((await revisions()).length).toBeGreaterThanOrEqual(5000);
    expect(await heard.page.locator('.events li').count()).toBe(200);
    await expectAccessible(heard.page);
    expect(heard.faults).toEqual([]);

    // The study runs again by itself.
    const before = (await revisions()).length;
    await expect.poll(async () => (await revisions()).length).toBeGreaterThan(before + 3);
    await stop(server.process);
    await heard.page.getByText('connection lost, trying again').waitFor();
    server = await start(new URL(server.url).host);
    await heard.page.getByText('live', { exact: true }).waitFor();
    const known = (await revisions()).length;
    await expect.poll(async () => (await revisions()).length).toBeGreaterThan(known);
    const all = await revisions();
    expect(all).toEqual(all.map((_, at) => at + 1));
    await expect.poll(newest).toBeGreaterThanOrEqual(all.length);
    await heard.close();
    await stop(server.process);
  });
});

describe('a slow network', () => {
  it('is waited for, and the page says so', async () => {
    const { page, faults, close } = await open(browser, base);
    let release = () => {};
    const held = new Promise<void>((done) => (release = done));
    await page.route('**/v1/studies?**', async (route) => {
      await held;
      await route.continue();
    });
    await page.goto(`${base}#/`);
    await page.getByRole('status').filter({ hasText: 'Loading …' }).waitFor();
    expect(await page.locator('tbody tr').count()).toBe(0);
    release();
    await page.locator('tbody tr').first().waitFor();
    expect(faults).toEqual([]);
    await close();
  });

  it('is not waited for once another question is asked', async () => {
    const { page, faults, close } = await open(browser, base);
    await page.route('**/v1/studies?**state=failed**', () => undefined); // never answered
    const calledOff = page.waitForEvent('requestfailed', (request) => request.url().includes('state=failed'));
    await page.goto(`${base}#/?state=failed`);
    await page.goto(`${base}#/?state=succeeded`);
    await calledOff;
    await page.locator('tbody tr').first().waitFor();
    expect(faults).toEqual([]);
    await close();
  });
});

describe('a server that is gone', () => {
  it('is said so, and asked again on demand', async () => {
    const server = await serve(bin, 'meshwright', [
      '--db', join(folder, 'history.db'), 'dashboard', '--http', '127.0.0.1:0',
    ]);
    const { page, close } = await open(browser, server.url);
    await page.goto(server.url);
    await page.locator('tbody tr').first().waitFor();
    await stop(server.process);
    await page.getByLabel('State').selectOption('failed');
    await page.getByRole('alert').getByText('The server does not answer.').waitFor();
    await page.getByRole('button', { name: 'Try again' }).waitFor();
    await expectAccessible(page);
    await close();
  });
});
