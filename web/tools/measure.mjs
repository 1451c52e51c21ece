// Measures how long views of a large study take, by the browser's own performance entries: node
// tools/measure.mjs ADDRESS STUDY. scripts/bench_dashboard.sh makes the study and starts the server.
// MESHWRIGHT_CHROMIUM names the browser (/usr/bin/chromium).
//
// "first view": from the start of the navigation to the largest contentful paint, with an empty cache.
// "interaction": the longest duration of an event entry (input to next paint) while the control is used.
import { chromium } from 'playwright-core';

const [address, study] = process.argv.slice(2);
const rounds = 5;
const views = [
  ['overview', '#/'],
  ['trials', `#/studies/${study}/trials`],
  ['trials, the fastest first', `#/studies/${study}/trials?order=fastest`],
  ['plans by their dimensions', `#/studies/${study}/dimensions`],
  ['cluster', `#/studies/${study}/cluster`],
];
const interactions = [
  ['next page of trials', `#/studies/${study}/trials`, (page) => page.locator('.pages a').last()],
  ['trials as a table', `#/studies/${study}/trials`, (page) => page.locator('.chart-tools button').first()],
  ['a value of a dimension', `#/studies/${study}/dimensions`, (page) => page.locator('.checks input').first()],
];

const browser = await chromium.launch({
  executablePath: process.env['MESHWRIGHT_CHROMIUM'] ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu'],
});
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
const isShown = () =>
  document.querySelector('main h1, main h2') !== null &&
  document.querySelector('main p.quiet[role=status]') === null &&
  document.querySelector('main [aria-busy=true]') === null &&
  [...document.querySelectorAll('.chart-canvas')].every((chart) => chart.dataset['drawn']);

async function opened(place) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, locale: 'en-US' });
  const page = await context.newPage();
  await page.addInitScript(() => {
    globalThis.entries = { paint: 0, event: 0 };
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) globalThis.entries.paint = entry.startTime;
    }).observe({ type: 'largest-contentful-paint', buffered: true });
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) globalThis.entries.event = Math.max(globalThis.entries.event, entry.duration);
    }).observe({ type: 'event', durationThreshold: 16, buffered: true });
  });
  await page.goto(address + place);
  await page.waitForFunction(isShown);
  // An entry comes after its frame: two more frames, and it is there.
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 100)))));
  return { page, close: () => context.close() };
}

async function measured(place, use) {
  const { page, close } = await opened(place);
  if (!use) {
    const paint = await page.evaluate(() => globalThis.entries.paint);
    await close();
    return paint;
  }
  await page.evaluate(() => (globalThis.entries.event = 0));
  await use(page).click();
  await page.waitForFunction(isShown);
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 300)))));
  const event = await page.evaluate(() => globalThis.entries.event);
  await close();
  return event; // 0: shorter than 16 ms
}

const rows = [
  ...views.map(([name, place]) => ['first view', name, place]),
  ...interactions.map(([name, place, use]) => ['interaction', name, place, use]),
];
console.log(`${'what'.padEnd(12)} ${'where'.padEnd(28)} ${'median ms'.padStart(10)} ${'worst ms'.padStart(10)}`);
for (const [what, name, place, use] of rows) {
  const times = [];
  for (let round = 0; round < rounds; ++round) times.push(await measured(place, use));
  console.log(`${what.padEnd(12)} ${name.padEnd(28)} ${median(times).toFixed(0).padStart(10)} ${Math.max(...times).toFixed(0).padStart(10)}`);
}
await browser.close();
