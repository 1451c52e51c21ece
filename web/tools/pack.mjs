// Packs every file of a folder into another: node tools/pack.mjs FROM TO. The names lose their
// folders. The same input gives the same bytes.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { gzipSync } from 'node:zlib';

const [from, to] = process.argv.slice(2);
mkdirSync(to, { recursive: true });
let total = 0;
for (const entry of readdirSync(from, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile()) continue;
  const packed = gzipSync(readFileSync(join(entry.parentPath ?? entry.path, entry.name)), { level: 9 });
  total += packed.length;
  writeFileSync(join(to, `${basename(entry.name)}.gz`), packed);
}
// The pages load within a second over a slow line, too.
const limit = 450 * 1024;
if (total > limit) throw new Error(`the pages take ${total} bytes compressed; at most ${limit}`);
