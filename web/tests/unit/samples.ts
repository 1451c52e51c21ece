// Small messages with round numbers, for tests.
import type { Estimate, GetStudyResponse, Measurement, Plan, RankedPlan, Study, Trial } from '../../src/api/wire';

const gib = 2 ** 30;

export function plan(changes: Partial<Plan> = {}): Plan {
  return {
    tensor_parallel: 4,
    sequence_parallel: true,
    pipeline_parallel: 2,
    virtual_pipeline: 1,
    data_parallel: 8,
    micro_batch_size: 1,
    zero_stage: 1,
    zero_group_size: 0,
    schedule: '1f1b',
    recompute: { granularity: 'none', layer_counts: [], modules: [], selective_layer_counts: [] },
    layers_per_stage: [16, 16],
    optimizer_offload_ratio: 0,
    stages: [],
    pools: [],
    ...changes,
  };
}

export function estimate(changes: Partial<Estimate> = {}): Estimate {
  return {
    step_time_seconds: 10,
    step_time_low_seconds: 8,
    step_time_high_seconds: 12,
    tokens_per_second_per_device: 1000,
    model_flops_utilization_ratio: 0.5,
    peak_memory_bytes: 60 * gib,
    reserved_memory_bytes: 64 * gib,
    memory_capacity_bytes: 80 * gib,
    fits: true,
    fit_probability_ratio: 0.98,
    breakdown_seconds: { matmul: 6, tensor_parallel: 3, pipeline_bubble: 1, host: 0 },
    memory_breakdown_bytes: { activations: 20 * gib, weights: 40 * gib, transient: 0 },
    peak_memory_bytes_by_stage: [60 * gib, 50 * gib],
    tier: 'simulated',
    provenance: 'published',
    applied_defaults: [],
    warnings: [],
    ...changes,
  };
}

export function ranked(digest: string, changes: Partial<RankedPlan> = {}): RankedPlan {
  return {
    plan: plan(),
    estimate: estimate(),
    exports: {},
    plan_digest: digest,
    like_count: 0,
    like_ranges: [],
    launches: {},
    settings: [],
    ...changes,
  };
}

export function trial(digest: string, outcome: string, seconds: number, expected = 10): Trial {
  return {
    plan_digest: digest,
    outcome,
    step_time_seconds: seconds,
    peak_memory_bytes: 0,
    expected_step_time_seconds: expected,
    success_probability_ratio: 1,
    device_seconds: 100,
    failure_class: '',
    failure_message: '',
    purpose: 'search',
    suspect_reasons: [],
  };
}

export function study(plans: RankedPlan[], baseline: RankedPlan, trials: Trial[] = []): GetStudyResponse {
  return {
    result: {
      plans,
      baseline,
      search: {
        space_count: 1000,
        pruned_count_by_rule: { memory: 900, bound: 90, history: 0 },
        evaluated_count: 10,
        seconds: 10,
        complete: true,
        optimality_gap_ratio: 0,
      },
      applied_defaults: [],
      warnings: [],
      trials,
      pareto_front: [],
      recommendation: 'launch',
      reason: '',
      reasons: [],
    },
  };
}

/** A job report that was expected to take 10 s, between 8 and 12. */
export function measurement(seconds: number, changes: Partial<Measurement> = {}): Measurement {
  return {
    id: 'm-1',
    sequence: 1,
    source: 'job_report',
    create_time: '2026-11-01T00:00:00Z',
    study_id: 'study-1',
    model_name: 'llama',
    cluster_name: 'eight',
    chip: 'nvidia-h100-sxm5-80gb',
    framework: 'megatron-core',
    framework_version: '0.14',
    device_count: 8,
    plan_key: 'tp4',
    plan_digest: 'a',
    outcome: 'ok',
    step_time_seconds: seconds,
    peak_memory_bytes: 0,
    expected: {
      step_time_seconds: 10,
      step_time_low_seconds: 8,
      step_time_high_seconds: 12,
      peak_memory_bytes: 0,
      calibration_id: '',
    },
    device_seconds: 0,
    job_name: 'job',
    note: '',
    job_fingerprint: 'f',
    hardware_fingerprint: 'h',
    software_fingerprint: 's',
    ...changes,
  };
}

export function summary(changes: Partial<Study> = {}): Study {
  return {
    id: 'study-1',
    state: 'succeeded',
    outcome: 'improved',
    model_name: 'llama',
    cluster_name: 'eight',
    device_count: 8,
    create_time: '2026-11-01T00:00:00Z',
    end_time: '2026-11-01T00:01:00Z',
    search_seconds: 60,
    best_step_time_seconds: 10,
    gain_over_baseline_ratio: 0.25,
    best_plan_digest: 'a',
    error_message: '',
    revision: 2,
    display_name: '',
    note: '',
    labels: {},
    etag: '0',
    chip: 'nvidia-h100-sxm5-80gb',
    other_chips: [],
    creator: '',
    server: '',
    ...changes,
  };
}
