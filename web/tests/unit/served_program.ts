// Serves the program that interrupt.test.ts names, as the tests in the browser serve theirs.
import { serve } from '../browser/server';

const { url } = await serve(process.env['PROGRAMS'] ?? '', 'server', []);
console.log(url);
setInterval(() => undefined, 1000);
