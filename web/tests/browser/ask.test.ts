// The form that asks, and what people may change where the server allows it.
import { copyFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { expectAccessible, launch, open, settle } from './browser';
import { root, serve, stop } from './server';

const base = inject('filled');
const config = readFileSync(join(root, 'examples/llama2-70b/config.json'));
const modelFile = { name: 'config.json', mimeType: 'application/json', buffer: config };
let browser: Browser;
let writable: Awaited<ReturnType<typeof serve>>;

beforeAll(async () => {
  browser = await launch();
  const folder = inject('folder');
  writable = await serve(inject('bin'), 'meshwrightd', [
    '--db', join(folder, 'writable.db'), '--listen', `unix:${join(folder, 'writable.sock')}`,
    '--http', '127.0.0.1:0', '--http-writes',
  ]);
});
afterAll(async () => {
  await browser.close();
  await stop(writable.process);
});

async function fill(page: Page, nodes: string): Promise<void> {
  await page.getByLabel('Model file (JSON)').setInputFiles(modelFile);
  await page.getByText('The model is read from config.json.').waitFor();
  await page.getByLabel('Chip').selectOption('nvidia-h100-sxm5-80gb');
  await page.getByLabel('Nodes', { exact: true }).fill(nodes);
  await page.getByLabel('Sequence length in tokens').fill('4096');
  await page.getByLabel('Global batch in sequences').fill('256');
  await page.getByRole('combobox', { name: 'Framework' }).selectOption('megatron-core');
}

const count = async (url: string): Promise<number> =>
  ((await (await fetch(new URL('v1/studies', url))).json()) as { studies: unknown[] }).studies.length;

const statusOf = async (id: string): Promise<number> =>
  (await fetch(new URL(`v1/studies/${id}`, writable.url))).status;

describe('the form', () => {
  it.each(['light', 'dark'] as const)('is answered by a read-only server, which keeps nothing (%s)', async (colorScheme) => {
    const before = await count(base);
    const { page, faults, close } = await open(browser, base, { colorScheme });
    await page.goto(`${base}#/ask`);
    await settle(page);
    await expectAccessible(page);
    await fill(page, '4');
    await page.getByRole('button', { name: 'Ask', exact: true }).click();
    await page.getByRole('heading', { name: 'Launch this plan' }).waitFor();
    await page.getByText('This answer is kept nowhere.').waitFor();
    await page.getByRole('heading', { name: 'Launch with megatron-core' }).waitFor();
    expect(await page.getByRole('button', { name: 'Keep it as a study' }).count()).toBe(0);
    await settle(page);
    await expectAccessible(page);
    // The inputs stand in the address, for all but the file.
    const copy = await open(browser, base);
    await copy.page.goto(page.url());
    await settle(copy.page);
    expect(await copy.page.getByLabel('Nodes', { exact: true }).inputValue()).toBe('4');
    await copy.close();
    expect(await count(base)).toBe(before);
    expect(faults).toEqual([]);
    await close();
  });

  it('asks for several pools, which are added, removed and named in the address', async () => {
    const { page, faults, close } = await open(browser, base);
    await page.goto(`${base}#/ask`);
    await settle(page);
    await fill(page, '2');
    await page.getByRole('button', { name: 'Add a pool' }).click();
    const second = page.getByRole('group', { name: 'Pool 2' });
    await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe('ask-chip2');
    await second.getByLabel('Chip').selectOption('nvidia-a100-sxm4-80gb');
    await second.getByLabel('Nodes').fill('0');
    await page.getByRole('button', { name: 'Add a pool' }).click();
    expect(await page.getByRole('group', { name: /^Pool \d/ }).count()).toBe(3);
    await page.getByRole('button', { name: 'Remove pool 3' }).click();
    await page.getByRole('textbox', { name: /^Link between pools/ }).fill('12.5');
    await page.getByRole('combobox', { name: 'Framework' }).selectOption('flagscale');
    await page.getByRole('button', { name: 'Ask', exact: true }).click();
    await page.locator('#ask-nodes2-mistake').getByText('must be >= 1').waitFor();
    await second.getByLabel('Nodes').fill('2');
    await page.getByRole('button', { name: 'Ask', exact: true }).click();
    await page.getByRole('heading', { name: /^(Mix|Do not mix) the pools/ }).waitFor();
    await settle(page);
    await expectAccessible(page);
    const copy = await open(browser, base);
    await copy.page.goto(page.url());
    await settle(copy.page);
    expect(await copy.page.getByRole('group', { name: 'Pool 2' }).getByLabel('Chip').inputValue()).toBe('nvidia-a100-sxm4-80gb');
    expect(await copy.page.getByRole('textbox', { name: /^Link between pools/ }).inputValue()).toBe('12.5');
    await copy.close();
    // One pool again: its inputs stand as before, and nothing of the mix is left.
    await page.getByRole('button', { name: 'Remove pool 1' }).click();
    expect(await page.getByLabel('Chip').inputValue()).toBe('nvidia-a100-sxm4-80gb');
    await expect.poll(() => page.getByRole('heading', { name: /mix the pools/i }).count()).toBe(0);
    // The browser itself notes the refused request.
    expect(faults.filter((fault) => !fault.includes('400 (Bad Request)'))).toEqual([]);
    await close();
  });

  it('names what is wrong beside its input', async () => {
    const { page, faults, close } = await open(browser, base);
    await page.goto(`${base}#/ask`);
    await settle(page);
    await page.getByLabel('Model file (JSON)').setInputFiles({ ...modelFile, name: 'x.yaml', buffer: Buffer.from('a: 1') });
    await page.getByText('x.yaml is not a JSON file with a model.').waitFor();
    await fill(page, 'four');
    await page.getByRole('button', { name: 'Ask', exact: true }).click();
    await page.getByText('This must be a whole number.').waitFor();
    expect(await page.evaluate(() => document.activeElement?.id)).toBe('ask-nodes');
    await page.getByLabel('Nodes', { exact: true }).fill('0');
    await page.getByRole('button', { name: 'Ask', exact: true }).click();
    await page.getByText('The server cannot answer this question:').waitFor();
    expect(await page.locator('#ask-nodes-mistake').innerText()).toContain('must be >= 1');
    await expectAccessible(page);
    // The browser itself notes the refused request.
    expect(faults.filter((fault) => !fault.includes('400 (Bad Request)'))).toEqual([]);
    await close();
  });

  it('says what would help if nothing fits', async () => {
    const { page, close } = await open(browser, base);
    await page.goto(`${base}#/ask`);
    await settle(page);
    await fill(page, '1');
    await page.getByLabel('Devices of a node').fill('1');
    await page.getByRole('button', { name: 'Ask', exact: true }).click();
    await page.getByRole('heading', { name: 'No plan fits' }).waitFor();
    await page.getByRole('heading', { name: 'The smallest changes after which a plan would fit' }).waitFor();
    await close();
  });

  it('asks a study again with changes', async () => {
    const { page, faults, close } = await open(browser, base);
    await page.goto(base);
    await page.getByRole('link', { name: 'llama2-70b' }).first().click();
    await page.getByRole('link', { name: 'Ask again with changes' }).click();
    await page.getByText('Without a file, the model stays as the study has it').waitFor();
    const nodes = page.getByLabel('Nodes', { exact: true });
    const doubled = String(2 * Number(await nodes.inputValue()));
    await nodes.fill(doubled);
    await page.getByRole('button', { name: 'Ask', exact: true }).click();
    await page.getByRole('heading', { name: /Launch this plan|Keep your plan/ }).waitFor();
    expect(page.url()).toContain(`nodes=${doubled}`);
    expect(faults).toEqual([]);
    await close();
  });
});

describe('a server that allows changes', () => {
  it('keeps a question as a study, which can be named, noted and labelled', async () => {
    const { page, faults, close } = await open(browser, writable.url);
    await page.goto(`${writable.url}#/ask`);
    await settle(page);
    await fill(page, '4');
    await page.getByRole('button', { name: 'Ask', exact: true }).click();
    await page.getByRole('button', { name: 'Keep it as a study' }).click();
    await page.getByRole('heading', { name: /on 4 nodes of nvidia-h100-sxm5-80gb$/ }).waitFor();
    await page.getByRole('heading', { name: 'Launch this plan' }).waitFor();
    await page.getByRole('button', { name: 'Change name, note and labels' }).click();
    await page.getByLabel('Name', { exact: true }).fill('Spring run');
    await page.getByLabel('Note').fill('as launched');
    await page.getByLabel(/^Labels, one in a line/).fill('team=vision');
    await expectAccessible(page);
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByRole('heading', { name: 'Spring run' }).waitFor();
    await page.getByRole('link', { name: 'team=vision' }).waitFor();
    await page.getByRole('link', { name: 'Studies', exact: true }).first().click();
    await page.getByRole('link', { name: 'Spring run' }).waitFor();
    expect(faults).toEqual([]);
    await close();
  });

  it('shows a change of somebody else, and overwrites nothing unseen', async () => {
    const { page, close } = await open(browser, writable.url);
    await page.goto(writable.url);
    await page.getByRole('link', { name: 'Spring run' }).click();
    await page.getByRole('button', { name: 'Change name, note and labels' }).click();
    await page.getByLabel('Note').fill('mine');
    const id = /studies\/([^/?]+)/.exec(page.url())?.[1] ?? '';
    const theirs = await fetch(new URL(`v1/studies/${id}`, writable.url), {
      method: 'PATCH',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ note: 'theirs', labels: { kept: 'yes' } }),
    });
    expect(theirs.status).toBe(200);
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('Somebody has changed this study meanwhile.').waitFor();
    await page.getByRole('definition').filter({ hasText: 'theirs' }).waitFor();
    await expectAccessible(page);
    await page.getByRole('button', { name: 'Continue from their version' }).click();
    expect(await page.getByLabel('Note').inputValue()).toBe('theirs');
    await page.getByLabel('Note').fill('both');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('both', { exact: true }).waitFor();
    await page.getByRole('link', { name: 'kept=yes' }).waitFor();
    await close();
  });

  it('pauses and resumes a study that runs, and cancels it after asking once more', async () => {
    const { page, faults, close } = await open(browser, writable.url);
    // A large question, so that the search still runs when it is cancelled.
    const question = {
      hugging_face_config_json: config.toString(),
      workload: { sequence_length: 4096, global_batch_size: 4096 },
      cluster: { name: 'large', pools: [{ chip: 'nvidia-h100-sxm5-80gb', node_count: 512 }] },
      strategy: 'random',
      evaluation_limit: 2_000_000_000,
    };
    const made = await fetch(new URL('v1/studies', writable.url), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ question }),
    });
    const { study } = (await made.json()) as { study: { id: string } };
    await page.goto(`${writable.url}#/studies/${study.id}`);
    // It stops a while after the call; the page hears of it, also where no events are listed.
    await page.getByRole('link', { name: 'Cluster', exact: true }).click();
    await page.getByRole('button', { name: 'Pause the study' }).click();
    await page.locator('.badge.state-paused').waitFor();
    // The list finds it by its state, and the operations count it and name it in the queue.
    const other = await open(browser, writable.url);
    await other.page.goto(`${writable.url}#/`);
    await other.page.getByLabel('State').selectOption('paused');
    await expect.poll(() => other.page.locator('tbody tr').count()).toBe(1);
    expect(other.page.url()).toContain('state=paused');
    expect(await other.page.locator('tbody .badge').first().innerText()).toBe('paused');
    await other.page.goto(`${writable.url}#/operations`);
    await other.page.locator('tr', { hasText: 'large' }).locator('.badge.state-paused').waitFor();
    expect(await other.page.locator('.tile', { hasText: 'Waiting studies' }).innerText()).toMatch(
      /Waiting studies\s+0\s+1 more is paused/,
    );
    expect(await other.page.locator('.tile', { hasText: 'Running studies' }).innerText()).toMatch(/Running studies\s+0/);
    expect(other.faults).toEqual([]);
    await other.close();
    await page.getByRole('button', { name: 'Resume the study' }).click();
    await page.getByRole('button', { name: 'Pause the study' }).waitFor();
    await page.getByRole('button', { name: 'Cancel the study' }).click();
    await page.getByRole('button', { name: 'Let it run' }).click();
    await page.getByRole('button', { name: 'Cancel the study' }).click();
    await page.getByRole('button', { name: 'Cancel it', exact: true }).click();
    await page.locator('.badge.state-cancelled').waitFor();
    expect(faults).toEqual([]);
    await close();
  });

  it('deletes a study after asking once more, and again if somebody has changed it', async () => {
    const { page, faults, close } = await open(browser, writable.url);
    await page.goto(writable.url);
    await page.getByRole('link', { name: 'Spring run' }).click();
    const deletion = page.getByRole('region', { name: 'Delete the study' });
    await page.getByRole('button', { name: 'Delete the study' }).press('Enter');
    await deletion.waitFor();
    await expectAccessible(page);
    await page.keyboard.press('Enter'); // the button that keeps it has the focus
    await deletion.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Delete the study' }).press('Enter');
    await deletion.waitFor();
    await page.keyboard.press('Escape');
    await deletion.waitFor({ state: 'detached' });

    await page.getByRole('button', { name: 'Delete the study' }).click();
    const id = /studies\/([^/?]+)/.exec(page.url())?.[1] ?? '';
    await fetch(new URL(`v1/studies/${id}`, writable.url), {
      method: 'PATCH',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ note: 'still needed' }),
    });
    await deletion.getByLabel(/^Retract its measurements/).check();
    await deletion.getByRole('button', { name: 'Delete it', exact: true }).click();
    await deletion.getByText('Somebody has changed this study meanwhile.').waitFor();
    await deletion.getByText('still needed').waitFor();
    await expectAccessible(page);
    expect(await statusOf(id)).toBe(200);
    await deletion.getByRole('button', { name: 'Delete it nevertheless' }).click();
    await page.getByRole('heading', { name: 'Studies', exact: true }).waitFor();
    expect(await statusOf(id)).toBe(404);
    // The browser itself notes the refused call.
    expect(faults.filter((fault) => !fault.includes('412'))).toEqual([]);
    await close();
  });
});

describe('a server that runs jobs', () => {
  it('runs a failed trial again after asking once more', async () => {
    const folder = inject('folder');
    for (const end of ['', '-wal']) {
      const file = join(folder, `history.db${end}`);
      if (existsSync(file)) copyFileSync(file, join(folder, `jobs.db${end}`));
    }
    const server = await serve(inject('bin'), 'meshwrightd', [
      '--db', join(folder, 'jobs.db'), '--listen', `unix:${join(folder, 'jobs.sock')}`,
      '--http', '127.0.0.1:0', '--http-writes', '--allow-jobs', '--insecure-jobs',
    ]);
    const { page, faults, close } = await open(browser, server.url);
    await page.goto(server.url);
    await page.getByRole('link', { name: 'gpt-small' }).click();
    await page.getByRole('link', { name: 'Trials', exact: true }).click();
    await page.getByRole('button', { name: 'Run the failed trials again' }).waitFor();
    await page.getByRole('link', { name: '2', exact: true }).click();
    await page.getByRole('button', { name: 'Run trial 2 again' }).click();
    await page.getByRole('button', { name: 'Leave it' }).click();
    await page.getByRole('button', { name: 'Run trial 2 again' }).click();
    await expectAccessible(page);
    await page.getByRole('button', { name: 'Run again', exact: true }).click();
    // It fails as before, as a second attempt.
    await page.getByRole('heading', { name: 'Attempt 2' }).waitFor();
    await page.getByRole('button', { name: 'Run trial 2 again' }).waitFor();
    expect(faults).toEqual([]);
    await close();
    await stop(server.process);
  });
});
