import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

it('every source is in the list that CMake builds the pages from', () => {
  const listed = [...readFileSync('sources.cmake', 'utf8').matchAll(/^ {4}(\S+)$/gm)].map((match) => match[1]);
  const found = ['src', 'public', 'tools'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => `${entry.parentPath}/${entry.name}`),
  );
  // src/api/wire.ts is made by the build.
  const sources = found.filter((name) => name !== 'src/api/wire.ts');
  for (const name of sources) expect(listed).toContain(name);
  const beside = ['index.html', 'package.json', 'tsconfig.json', 'vite.config.ts'];
  expect([...listed].sort()).toEqual([...sources, ...beside].sort());
});

it('every address of the API has its line in the documentation', () => {
  // The description is held against the tables of the server by docs_test.
  const description = JSON.parse(readFileSync('../docs/reference/openapi.json', 'utf8')) as {
    paths: Record<string, Record<string, unknown>>;
  };
  const addresses = Object.entries(description.paths)
    .filter(([address, methods]) => 'get' in methods && address !== '/v1/openapi.json')
    .map(([address]) => address);
  expect(addresses.length).toBeGreaterThanOrEqual(15);
  const page = readFileSync('../docs/http.md', 'utf8');
  const lines = [...page.matchAll(/^\| `(\/v1\/[^`]+)` \|/gm)].map((match) => match[1] ?? '');
  expect(lines.sort()).toEqual(addresses.sort());
});
