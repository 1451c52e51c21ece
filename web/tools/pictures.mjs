// Draws the pictures of the README: node tools/pictures.mjs ADDRESS FOLDER, with the address of a
// dashboard of scripts/demo.sh. MESHWRIGHT_CHROMIUM names the browser (/usr/bin/chromium).
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const [address, folder] = process.argv.slice(2);
const { studies } = await (await fetch(new URL('v1/studies', address))).json();
const study = studies.find(({ cluster_name }) => cluster_name === 'h100x2048');
const pictures = [
  { name: 'decision', place: `#/studies/${study.id}`, height: 600 },
  { name: 'predictions', place: '#/quality', height: 900 },
];
const browser = await chromium.launch({
  executablePath: process.env['MESHWRIGHT_CHROMIUM'] ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu'],
});
for (const { name, place, height } of pictures) {
  // A page at a time: a change of the place behind '#' alone loads nothing.
  const page = await browser.newPage({ viewport: { width: 1280, height }, locale: 'en-US', colorScheme: 'light' });
  await page.goto(address + place);
  await page.waitForFunction(
    () =>
      document.querySelectorAll('.chart-canvas').length > 0 &&
      [...document.querySelectorAll('.chart-canvas')].every((chart) => chart.dataset['drawn']),
  );
  writeFileSync(join(folder, `${name}.png`), await page.screenshot());
  await page.close();
}
await browser.close();
