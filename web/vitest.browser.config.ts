import { defineConfig } from 'vitest/config';

// The tests of the pages in Chromium, against a real server: tests/browser/server.ts says what they
// need.
export default defineConfig({
  test: {
    include: ['tests/browser/**/*.test.ts'],
    globalSetup: 'tests/browser/server.ts',
    testTimeout: 60_000,
    hookTimeout: 120_000,
    fileParallelism: false,
    expect: { poll: { timeout: 30_000 } }, // two busy cores
  },
});
