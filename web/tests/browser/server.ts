// Fills a history with real searches, and serves it. Needs the programs (MESHWRIGHT_BIN names their
// folder; build/release/bin) and Chromium (MESHWRIGHT_CHROMIUM; /usr/bin/chromium).
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';

export const root = fileURLToPath(new URL('../../..', import.meta.url));
const bin = resolve(process.env['MESHWRIGHT_BIN'] ?? join(root, 'build/release/bin'));
let folder = '';
const children: ChildProcess[] = [];

declare module 'vitest' {
  interface ProvidedContext {
    filled: string;
    empty: string;
    bin: string;
    folder: string;
  }
}

// The ends that a signal asks for, and their numbers: a run that was ended has 128 + the number.
const signals = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;

/** Ends what was started and removes the folder, at once: nothing can be waited for any more. */
function endAll(): void {
  for (const child of children) child.kill('SIGKILL');
  if (folder) rmSync(folder, { recursive: true, force: true });
}

/** Without this, a run that is interrupted leaves its servers behind. */
function endWithThisProcess(): void {
  process.once('exit', endAll);
  for (const [signal, number] of Object.entries(signals)) {
    process.once(signal, () => process.exit(128 + number));
  }
}

/** Starts a program; returns its address once it says "dashboard at ...". */
export function serve(
  programs: string,
  name: string,
  args: string[],
  environment: Record<string, string> = {},
): Promise<{ url: string; process: ChildProcess }> {
  if (children.length === 0) endWithThisProcess();
  const child = spawn(join(programs, name), args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...environment },
  });
  children.push(child);
  return new Promise((done, failed) => {
    let said = '';
    child.stdout?.on('data', (part: Buffer) => {
      said += part.toString();
      const url = /dashboard at (\S+)/.exec(said)?.[1];
      if (url) done({ url, process: child });
    });
    child.on('exit', (code) => failed(new Error(`${name} ended with ${code}: ${said}`)));
  });
}

/** Ends a program and waits for its end. */
export async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((done) => child.once('exit', done));
  child.kill('SIGTERM');
  await ended;
}

function meshwright(history: string, ...args: string[]): string {
  return execFileSync(join(bin, 'meshwright'), ['--db', history, ...args], { encoding: 'utf8' });
}

/** Asks for the example's plans; returns the id of the study that the history then has. */
function studyOf(history: string, cluster: string, ...more: string[]): string {
  const example = join(root, 'examples/llama2-70b');
  meshwright(
    history, 'tune', '--model', join(example, 'config.json'), '--workload', join(example, 'workload.json'),
    '--cluster', join(example, 'cluster.json'), ...more,
  );
  return newestStudy(history, cluster);
}

function newestStudy(history: string, cluster: string): string {
  const { studies } = JSON.parse(meshwright(history, 'study', 'list', '--output', 'json')) as {
    studies: { id: string; cluster_name: string }[];
  };
  return studies.find(({ cluster_name }) => cluster_name === cluster)?.id ?? '';
}

/**
 * Replays the plans of the newest study of the example as trials, of which the second runs out of
 * memory; without such a study, asks for one. Returns the id of the study that has the trials.
 */
export function addTrials(history: string, place: string): string {
  const id = existsSync(history) ? newestStudy(history, 'a100x128') : studyOf(history, 'a100x128');
  const { plans } = JSON.parse(meshwright(history, 'study', 'plans', id, '--output', 'json')) as {
    plans: { plan: object; estimate: { step_time_seconds: number } }[];
  };
  const rows = plans.map(({ plan, estimate }, at) =>
    at === 1
      ? { plan, outcome: 'oom' }
      : { plan, outcome: 'ok', step_time_seconds: estimate.step_time_seconds * (1 + at / 100) },
  );
  const file = join(place, `replay-${id}.jsonl`);
  writeFileSync(file, rows.map((row) => JSON.stringify(row) + '\n').join(''));
  return studyOf(history, 'a100x128', '--launcher', 'replay', '--replay', file, '--max-trials', '4');
}

/** Runs two plans as jobs whose command only writes steps; the second runs out of memory. */
function addJobs(history: string): void {
  const script = join(folder, 'steps.sh');
  writeFileSync(
    script,
    `if [ "$1" -gt 1 ]; then echo "torch.cuda.OutOfMemoryError: CUDA out of memory" >&2; exit 1; fi
for step in 0 1 2 3 4 5 6 7; do
  echo "{\\"event\\": \\"step\\", \\"step\\": $step, \\"step_time_seconds\\": 0.75}"
done
`,
  );
  for (const name of ['jobs', 'slots']) mkdirSync(join(folder, name));
  const job = join(folder, 'job.json');
  writeFileSync(
    job,
    JSON.stringify({
      folder: join(folder, 'jobs'),
      slots_folder: join(folder, 'slots'),
      command: ['/bin/sh', script, '{micro_batch_size}'],
      processes_per_node: 1,
      environment: ['COLOUR=blue'],
      metrics: { warmup_steps: 2, min_steps: 5, max_steps: 6, interval_ratio: 0.5 },
    }),
  );
  const example = join(root, 'examples/two-cores');
  meshwright(
    history, 'tune', '--model', join(example, 'model.json'), '--workload', join(example, 'workload.json'),
    '--cluster', join(example, 'cluster.json'), '--launcher', 'local', '--job', job, '--max-trials', '2',
  );
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  folder = mkdtempSync(join(tmpdir(), 'mw-web-'));
  const history = join(folder, 'history.db');
  execFileSync(join(root, 'scripts/demo.sh'), ['--history-only', history], {
    env: { ...process.env, MESHWRIGHT_BIN: bin },
    stdio: 'inherit',
  });
  addTrials(history, folder);
  addJobs(history);
  const labelled = newestStudy(history, 'a100x32');
  meshwright(history, 'study', 'update', labelled, '--label', 'team=vision', '--label', 'reviewed=');
  const filled = await serve(bin, 'meshwrightd', [
    '--db', history, '--listen', `unix:${join(folder, 'server.sock')}`, '--http', '127.0.0.1:0',
  ]);
  // The command on the user's own history, which is not there yet.
  const empty = await serve(bin, 'meshwright', ['dashboard', '--http', '127.0.0.1:0'], {
    XDG_STATE_HOME: join(folder, 'state'),
  });
  project.provide('filled', filled.url);
  project.provide('empty', empty.url);
  project.provide('bin', bin);
  project.provide('folder', folder);
  return async () => {
    await Promise.all(children.map(stop));
    // A process that a job has left may still write there.
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 250 });
    folder = '';
  };
}
