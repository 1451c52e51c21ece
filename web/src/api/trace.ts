// The answer of :trace, in the trace event format, which no message of the API describes.

/** An event of the trace event format; times are microseconds. */
interface TraceEvent {
  name: string;
  cat?: string;
  ph: string;
  tid?: number;
  ts?: number;
  dur?: number;
  args?: { micro_batch?: number; chunk?: number; direction?: number };
}
export interface Trace {
  traceEvents: TraceEvent[];
}
