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
