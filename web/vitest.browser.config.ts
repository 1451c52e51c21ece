import { defineConfig } from 'vitest/config';

// The tests of the pages in Chromium, against a real server: tests/browser/server.ts says what they
// need.
export default defineConfig({
  test: {
    include: ['tests/browser/**/*.test.ts'],
    globalSetup: 'tests/browser/server.ts',
    // Two busy cores may be slow; what never comes ends with these.
    testTimeout: 240_000,
    hookTimeout: 240_000,
    expect: { poll: { timeout: 120_000 } },
    fileParallelism: false,
    // Every page takes seconds; a log names only what is far beyond that.
    slowTestThreshold: 60_000,
  },
});
