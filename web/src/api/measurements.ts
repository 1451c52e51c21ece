// The measurements that charts are drawn from: the newest ones, page by page.
import { api, type Query } from './client';
import type { Measurement } from './wire';

const pageSize = 1000;
/** As many as a chart can show and a browser reads in a second. */
export const measurementLimit = 5000;

export interface MeasurementSet {
  measurements: Measurement[];
  /** There are older ones that match, too. */
  isCut: boolean;
}

export async function newestMeasurements(
  filter: Query,
  signal: AbortSignal,
  ask: typeof api.measurements = api.measurements,
): Promise<MeasurementSet> {
  const measurements: Measurement[] = [];
  let token = '';
  do {
    const page = await ask({ ...filter, page_size: pageSize, page_token: token }, signal);
    measurements.push(...page.measurements);
    token = page.next_page_token;
  } while (token !== '' && measurements.length < measurementLimit);
  return { measurements, isCut: token !== '' };
}
