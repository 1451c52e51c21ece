// Reads and writes the server's JSON, which is that of the messages in proto/ (wire.ts). Addresses are relative
// to the page, so that the pages work below any path of a proxy.
import { embedded } from './embedded';
import type { Trace } from './trace';
import type {
  CancelStudyResponse,
  CreateStudyResponse,
  DeleteStudyResponse,
  GetCalibrationResponse,
  GetChipResponse,
  GetMeasurementResponse,
  GetServerInfoResponse,
  GetStudyResponse,
  GetTrialResponse,
  Infeasible,
  ListAttemptsResponse,
  ListAuditEventsResponse,
  ListCalibrationsResponse,
  ListCallersResponse,
  ListChipsResponse,
  ListCostModelsResponse,
  ListJobReportsResponse,
  ListMeasurementsResponse,
  ListParetoTrialsResponse,
  ListPlansResponse,
  ListStudiesResponse,
  ListTrialsResponse,
  PauseStudyResponse,
  RecommendResponse,
  ResumeStudyResponse,
  RetryTrialsResponse,
  Study,
  SweepRequest,
  SweepResponse,
  TuneRequest,
  UpdateStudyResponse,
} from './wire';

/** A field of a request that is wrong, by its path in the message: workload.sequence_length. */
export interface FieldMistake {
  field: string;
  description: string;
}

/** An answer that is an error, as the command line prints it under --output json. */
interface ErrorBody {
  error?: { reason?: string; message?: string; fields?: FieldMistake[] };
  infeasible?: Infeasible;
}

export class ApiError extends Error {
  constructor(
    readonly httpStatus: number,
    readonly reason: string,
    message: string,
    readonly fields: readonly FieldMistake[] = [],
    /** The changes that would help, if no plan fits. */
    readonly infeasible?: Infeasible,
  ) {
    super(message);
  }
  /** True if the caller's role is too low. */
  get isForbidden(): boolean {
    return this.httpStatus === 403 && this.reason === 'ROLE_TOO_LOW';
  }
  get isAbsent(): boolean {
    return this.httpStatus === 404;
  }
  /** True if somebody has changed the study since it was read. */
  get isConflict(): boolean {
    return this.httpStatus === 412 || this.httpStatus === 409;
  }
}

/** Values of a request's fields; nested fields have dotted names (filter.state). */
export type Query = Record<string, string | number | undefined>;

/**
 * Returns the address of a resource, such as v1/studies?page_size=50. Empty values are left out, but
 * for those of labels: a label without a value is one, too.
 */
export function addressOf(path: readonly string[], query: Query = {}): string {
  const parameters = new URLSearchParams();
  for (const [field, value] of Object.entries(query)) {
    const isStated = value !== '' || field.startsWith('filter.labels.');
    if (value !== undefined && isStated) parameters.set(field, String(value));
  }
  const text = parameters.toString();
  return `v1/${path.map(encodeURIComponent).join('/')}${text === '' ? '' : `?${text}`}`;
}

async function errorOf(response: Response): Promise<ApiError> {
  const body = (await response.json().catch(() => ({}))) as ErrorBody;
  const { reason = '', message = response.statusText, fields = [] } = body.error ?? {};
  return new ApiError(response.status, reason, message, fields, body.infeasible);
}

export async function read<T>(
  path: readonly string[],
  query: Query = {},
  signal?: AbortSignal,
): Promise<T> {
  if (embedded) {
    const answer = embedded[addressOf(path, query)];
    if (answer === undefined) throw new ApiError(404, 'NOT_IN_FILE', '');
    return answer as T;
  }
  const response = await fetch(new URL(addressOf(path, query), document.baseURI), {
    headers: { accept: 'application/json' },
    credentials: 'same-origin',
    ...(signal ? { signal } : {}),
  });
  if (!response.ok) throw await errorOf(response);
  return (await response.json()) as T;
}

/** Sends a message to an address below v1/; one to delete has none. */
async function send<T>(
  method: 'POST' | 'PATCH' | 'DELETE',
  path: string,
  body: object | undefined,
  { etag, signal }: { etag?: string; signal?: AbortSignal } = {},
): Promise<T> {
  const response = await fetch(new URL(`v1/${path}`, document.baseURI), {
    method,
    headers: {
      accept: 'application/json',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(etag === undefined ? {} : { 'if-match': `"${etag}"` }),
    },
    credentials: 'same-origin',
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(signal ? { signal } : {}),
  });
  if (!response.ok) throw await errorOf(response);
  return (await response.json()) as T;
}

/** The name, the note and the labels that people give a study. */
export interface StudyWords {
  display_name: string;
  note: string;
  labels: Record<string, string>;
  removed_labels: string[];
}

export const api = {
  /** Answers a question and keeps nothing. */
  recommend: (question: TuneRequest, signal?: AbortSignal) =>
    send<RecommendResponse>('POST', 'plans:recommend', { question }, signal ? { signal } : {}),
  /** Answers a question for several sizes and keeps nothing. */
  sweep: (request: SweepRequest, signal?: AbortSignal) =>
    send<SweepResponse>('POST', 'plans:sweep', request, signal ? { signal } : {}),
  createStudy: (question: TuneRequest) =>
    send<CreateStudyResponse>('POST', 'studies', { question }),
  updateStudy: (study: Study, words: StudyWords) =>
    send<UpdateStudyResponse>('PATCH', `studies/${encodeURIComponent(study.id)}`, words, {
      etag: study.etag,
    }),
  cancelStudy: (id: string) =>
    send<CancelStudyResponse>('POST', `studies/${encodeURIComponent(id)}:cancel`, {}),
  pauseStudy: (id: string) =>
    send<PauseStudyResponse>('POST', `studies/${encodeURIComponent(id)}:pause`, {}),
  resumeStudy: (id: string) =>
    send<ResumeStudyResponse>('POST', `studies/${encodeURIComponent(id)}:resume`, {}),
  /** `retracts`: later answers learn nothing from the study's measurements. */
  deleteStudy: (study: Study, retracts: boolean) =>
    send<DeleteStudyResponse>(
      'DELETE',
      `studies/${encodeURIComponent(study.id)}${retracts ? '?retract_measurements=true' : ''}`,
      undefined,
      { etag: study.etag },
    ),
  /** Runs trials again; without numbers, all that have failed. */
  retryTrials: (id: string, numbers: readonly number[]) =>
    send<RetryTrialsResponse>('POST', `studies/${encodeURIComponent(id)}:retryTrials`, { trial_numbers: numbers }),
  serverInfo: (signal?: AbortSignal) => read<GetServerInfoResponse>(['server'], {}, signal),
  studies: (query: Query, signal?: AbortSignal) =>
    read<ListStudiesResponse>(['studies'], query, signal),
  study: (id: string, signal?: AbortSignal) => read<GetStudyResponse>(['studies', id], {}, signal),
  plans: (id: string, query: Query, signal?: AbortSignal) =>
    read<ListPlansResponse>(['studies', id, 'plans'], query, signal),
  /** The simulated step of a plan over time. */
  trace: (id: string, rank: number, signal?: AbortSignal) =>
    read<Trace>(['studies', id, 'plans', `${rank}:trace`], {}, signal),
  /** The trials that no other beats in measured step time and memory, the fastest first; at most 1,000. */
  paretoTrials: (id: string, signal?: AbortSignal) =>
    read<ListParetoTrialsResponse>(['studies', id, 'paretoTrials'], { page_size: 1000 }, signal),
  trials: (id: string, query: Query, signal?: AbortSignal) =>
    read<ListTrialsResponse>(['studies', id, 'trials'], query, signal),
  trial: (id: string, number: string, signal?: AbortSignal) =>
    read<GetTrialResponse>(['studies', id, 'trials', number], {}, signal),
  attempts: (id: string, query: Query, signal?: AbortSignal) =>
    read<ListAttemptsResponse>(['studies', id, 'attempts'], query, signal),
  callers: (signal?: AbortSignal) => read<ListCallersResponse>(['callers'], {}, signal),
  auditEvents: (query: Query, signal?: AbortSignal) =>
    read<ListAuditEventsResponse>(['auditEvents'], query, signal),
  costModels: (signal?: AbortSignal) => read<ListCostModelsResponse>(['costModels'], {}, signal),
  chips: (signal?: AbortSignal) => read<ListChipsResponse>(['chips'], {}, signal),
  chip: (id: string, signal?: AbortSignal) => read<GetChipResponse>(['chips', id], {}, signal),
  jobReports: (query: Query, signal?: AbortSignal) =>
    read<ListJobReportsResponse>(['jobReports'], query, signal),
  measurements: (query: Query, signal?: AbortSignal) =>
    read<ListMeasurementsResponse>(['measurements'], query, signal),
  measurement: (id: string, signal?: AbortSignal) =>
    read<GetMeasurementResponse>(['measurements', id], {}, signal),
  calibrations: (query: Query, signal?: AbortSignal) =>
    read<ListCalibrationsResponse>(['calibrations'], query, signal),
  calibration: (id: string, signal?: AbortSignal) =>
    read<GetCalibrationResponse>(['calibrations', id], {}, signal),
};
