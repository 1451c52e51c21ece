// The pages for those who judge: predictions, runs, chips and operations.
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { expectAccessible, launch, open, settle } from './browser';
import { serve, stop } from './server';

const base = inject('filled');
const bin = inject('bin');
const folder = inject('folder');
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

describe('chips', () => {
  it('are found by name, and compared', async () => {
    const { page, faults, close } = await open(browser, base);
    await page.goto(`${base}#/chips`);
    const rows = page.locator('tbody tr');
    // The chips that runs were measured on come first.
    await rows.first().getByText('checked by runs').waitFor();
    await page.getByLabel('Search').fill('910b');
    await page.keyboard.press('Enter');
    await rows.first().getByText('Ascend 910B').first().waitFor();
    await page.getByRole('link', { name: 'Ascend 910B (376T bin)' }).click();
    await page.getByLabel('Compare with').selectOption('nvidia-a100-sxm4-80gb');
    await page.getByRole('heading', { name: /beside A100/ }).waitFor();
    expect(page.url()).toContain('with=nvidia-a100-sxm4-80gb');
    expect(faults).toEqual([]);
    await close();
  });

  it('show a report of microbenchmarks, which stays in the browser', async () => {
    const { page, faults, close } = await open(browser, base);
    await page.goto(`${base}#/chips/nvidia-a100-sxm4-80gb`);
    await settle(page);
    const file = (chip: string) => ({
      name: 'report.json',
      mimeType: 'application/json',
      buffer: Buffer.from(JSON.stringify({
        chip,
        verdict: 'not_ready',
        reasons: ['gemm is poor'],
        operators: [{
          name: 'gemm', detail: 'bf16', point_count: 40, limit_ratio: 0.08, verdict: 'poor', advice: 'again',
          before: { median_ratio: 0.3, p90_ratio: 0.5, point_count: 40 },
          held_out: { median_ratio: 0.1, p90_ratio: 0.2, point_count: 20 },
        }],
      })),
    });
    const input = page.getByLabel('Reports (JSON)');
    await input.setInputFiles(file('nvidia-a100-sxm4-80gb'));
    await page.getByRole('heading', { name: 'Not ready to plan with' }).waitFor();
    await page.getByRole('figure', { name: /Errors of the fits/ }).waitFor();
    await settle(page);
    await expectAccessible(page);
    await input.setInputFiles(file('amd-instinct-mi300x'));
    await page.getByText('This report is of another chip, amd-instinct-mi300x.').waitFor();
    await input.setInputFiles({ name: 'x.txt', mimeType: 'text/plain', buffer: Buffer.from('no') });
    await page.getByText('x.txt is a report of neither meshwright calibrate nor meshwright model check.').waitFor();
    expect(faults).toEqual([]);
    await close();
  });
});

describe('the coverage of a chip', () => {
  it('says what was measured, at which sizes, and what was not', async () => {
    const { page, faults, close } = await open(browser, base);
    await page.goto(`${base}#/chips/nvidia-h100-sxm5-80gb`);
    await page.getByText(/Not measured on it: memory-bound kernels, overlap with communication\./).waitFor();
    await page.getByRole('button', { name: 'Show “Measured collectives by the size of the message” as a table' }).click();
    const table = page.getByRole('table', { name: 'Measured collectives by the size of the message' });
    // 21 powers of two from 512 B to 512 MiB: three lie below 4 KiB, two from 256 MiB on.
    expect(await table.getByRole('row', { name: /all-reduce, 8 ranks/ }).innerText()).toMatch(/3\s+4\s+4\s+4\s+4\s+2$/);
    await page.locator('summary', { hasText: /^\d+ operators with their sources$/ }).click();
    await expectAccessible(page);
    expect(faults).toEqual([]);
    await close();
  });

  it('has the checks of a cost model, which stay in the browser', async () => {
    const { page, faults, close } = await open(browser, base);
    await page.goto(`${base}#/chips/cpu-generic`);
    const report = {
      passed: false,
      info: { name: 'acme-model', vendor: 'Acme', version: '1.2', chips: ['cpu-*'] },
      isolation: 'network=none',
      checks: [
        { name: 'handshake', what: 'starts', outcome: 'passed', detail: 'acme-model' },
        { name: 'units', what: 'times are seconds', outcome: 'failed', detail: 'reaches 480 times the peak' },
        { name: 'concurrency', what: 'as many callers', outcome: 'skipped', detail: 'at 1' },
      ],
      log_tail: '',
    };
    await page.getByLabel('Reports (JSON)').setInputFiles({
      name: 'conformance.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(report)),
    });
    await page.getByRole('heading', { name: 'The cost model has not passed' }).waitFor();
    await page.getByText('Of 3 checks, 1 passed, 1 failed and 1 were skipped.').waitFor();
    await page.getByText('reaches 480 times the peak').waitFor();
    await settle(page);
    await expectAccessible(page);
    expect(faults).toEqual([]);
    await close();
  });
});

describe('callers', () => {
  it('are listed with their calls for administrators, and for nobody else', async () => {
    const callers = join(folder, 'callers');
    const line = (name: string, role: string) =>
      `${name} ${role} sha256:${createHash('sha256').update(`${name}-token`).digest('hex')}\n`;
    writeFileSync(callers, line('ci', 'submitter') + line('root', 'admin'), { mode: 0o600 });
    const history = join(folder, 'callers.db');
    const server = await serve(bin, 'meshwrightd', [
      '--db', history, '--listen', `unix:${join(folder, 'callers.sock')}`, '--callers', callers,
      '--http', '127.0.0.1:0', '--http-writes',
    ]);
    const as = (name: string) => ({ authorization: `Bearer ${name}-token`, 'content-type': 'application/json' });
    const cancelled = await fetch(new URL('v1/studies/none:cancel', server.url), { method: 'POST', headers: as('ci'), body: '{}' });
    expect(cancelled.status).toBe(404);
    expect((await fetch(new URL('v1/callers', server.url), { headers: as('ci') })).status).toBe(403);
    expect((await fetch(new URL('v1/studies', server.url))).status).toBe(401);

    const { page, faults, close } = await open(browser, server.url, {
      httpCredentials: { username: 'anybody', password: 'root-token' },
    });
    await page.goto(`${server.url}#/operations/calls`);
    const ci = page.getByRole('table', { name: 'Callers' }).getByRole('row', { name: /^ci/ });
    // Calls, role too low, failed: the study that is not there, and the list of callers.
    expect(await ci.innerText()).toMatch(/submitter\s+2\s+1\s+1\s/);
    // Before it is asked who it is, the browser is a stranger, too.
    await page.getByText(/[1-9]\d* calls? of somebody unknown (was|were) refused/).waitFor();
    const changes = page.getByRole('table', { name: 'Calls that changed something' });
    expect(await changes.getByRole('row').last().innerText()).toMatch(/CancelStudy\s+none\s+NOT_FOUND\s+UNKNOWN_STUDY/);
    await ci.getByRole('link', { name: 'ci' }).click();
    await expect.poll(() => page.url()).toContain('caller=ci');
    await page.getByRole('combobox', { name: 'Call', exact: true }).selectOption('DeleteStudy');
    await page.getByText('No call matches.').waitFor();
    await expectAccessible(page);
    expect(faults).toEqual([]);
    await close();

    const other = await open(browser, server.url, { httpCredentials: { username: 'anybody', password: 'ci-token' } });
    await other.page.goto(`${server.url}#/operations/calls`);
    await other.page.getByRole('heading', { name: 'Only administrators can see who calls.' }).waitFor();
    await expectAccessible(other.page);
    await other.close();
    await stop(server.process);
  });
});

describe('a trial', () => {
  it('says why its job ended, and has its command, its variables and its log', async () => {
    const { page, faults, close } = await open(browser, base);
    await page.goto(base);
    await page.getByRole('link', { name: 'gpt-small' }).click();
    await page.getByRole('link', { name: 'Trials' }).click();
    await page.getByRole('link', { name: '2', exact: true }).click();
    await page.getByRole('heading', { name: /Trial 2 out of memory/ }).waitFor();
    await page.getByText('CUDA out of memory').first().waitFor();
    await page.getByText('steps.sh').first().waitFor();
    await page.getByText('COLOUR=blue').waitFor();
    await page.goBack();
    await page.getByRole('link', { name: '1', exact: true }).click();
    await page.getByText('Beginning of the log').click();
    await page.getByText('"step_time_seconds": 0.75').waitFor();
    expect(faults).toEqual([]);
    await close();
  });
});

describe('two plans', () => {
  it('are chosen in the address, and named by the charts', async () => {
    const { page, faults, close } = await open(browser, base);
    await page.goto(base);
    await page.getByRole('link', { name: 'deepseek-v3' }).last().click();
    await page.getByRole('link', { name: 'Compare', exact: true }).click();
    await page.getByRole('figure', { name: 'Why Plan 2 differs from Plan 1' }).waitFor();
    await page.locator('.filters select').last().selectOption('3');
    await page.getByRole('figure', { name: 'Why Plan 3 differs from Plan 1' }).waitFor();
    expect(page.url()).toContain('second=3');
    await page.locator('.filters select').first().selectOption('2');
    await page.getByRole('figure', { name: 'Why Plan 3 differs from Plan 2' }).waitFor();
    expect(faults).toEqual([]);
    await close();
  });
});
