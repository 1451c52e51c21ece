import { spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';

it('an interrupted run of the browser tests ends its servers', { timeout: 60_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'mw-interrupt-'));
  const server = join(folder, 'server');
  // Says its process id as its address, and does not end by itself.
  writeFileSync(server, '#!/bin/sh\ntrap "" TERM\necho "dashboard at $$"\nexec sleep 600\n');
  chmodSync(server, 0o755);
  try {
    for (const [signal, code] of [['SIGTERM', 143], ['SIGINT', 130]] as const) {
      const run = spawn('node_modules/.bin/vite-node', ['tests/unit/served_program.ts'], {
        env: { ...process.env, PROGRAMS: folder },
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const id = await new Promise<number>((said) => {
        run.stdout.once('data', (line: Buffer) => said(Number(line.toString())));
      });
      const ended = new Promise<number | null>((done) => run.once('exit', (status) => done(status)));
      run.kill(signal);
      expect(await ended).toBe(code);
      await expect.poll(() => isRunning(id), { timeout: 30_000 }).toBe(false);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

function isRunning(id: number): boolean {
  try {
    process.kill(id, 0);
    return true;
  } catch {
    return false;
  }
}
