// Packs every file of a folder into another: node tools/pack.mjs FROM TO. The names lose their
// folders. The same input gives the same bytes. One more file, report.html, is the form of a page that
// has all files in itself (server/http/report_page.cc and src/parts/report_file.tsx fill it).
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { gzipSync } from 'node:zlib';

const [from, to] = process.argv.slice(2);

/** Returns the form: a page whose policy allows exactly these files, and no request at all. */
function reportForm() {
  const texts = Object.fromEntries(
    ['index.css', 'engine.js', 'index.js'].map((name) => [name, readFileSync(join(from, 'assets', name), 'utf8')]),
  );
  for (const [name, text] of Object.entries(texts)) {
    const bad = /<\/(script|style)|<!--|\r/i.exec(text);
    if (bad) throw new Error(`${name} cannot stand in a page: it has ${JSON.stringify(bad[0])}`);
  }
  const hash = (name) => `'sha256-${createHash('sha256').update(texts[name]).digest('base64')}'`;
  const policy = [
    "default-src 'none'",
    `script-src ${hash('engine.js')} ${hash('index.js')}`,
    `style-src ${hash('index.css')}`,
    'img-src blob: data:',
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>Meshwright</title>
<style>@@index.css@@</style>
</head>
<body>
<div id="app"></div>
<noscript>This page needs JavaScript.</noscript>
<script type="application/json" id="answers">@@answers@@</script>
<script type="module">@@engine.js@@</script>
<script type="module">@@index.js@@</script>
</body>
</html>
`;
}

writeFileSync(join(from, 'report.html'), reportForm());
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
