/* A vendor's cost model as a shared library: a template whose answers to all questions are
 * plausible but not exact. Keep the table at the end unchanged and adapt `Judge`. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "meshwright_costmodel.h"

enum { kLineCount = 4 };

#define TEXT(literal) \
  { (literal), sizeof(literal) - 1 }

static const mw_string kLines[kLineCount] = {TEXT("matmul"), TEXT("memory_bound"),
                                             TEXT("tensor_parallel"), TEXT("pipeline_bubble")};
static const mw_string kChips[] = {TEXT("*")};
static const mw_string kPrecisions[] = {TEXT("bf16"), TEXT("fp16"), TEXT("fp8"), TEXT("fp32")};
static const mw_string kOperators[] = {TEXT("dense"), TEXT("moe")};
static const mw_string kKernels[] = {TEXT("unfused"), TEXT("fused_softmax"), TEXT("flash1"),
                                     TEXT("flash2"),  TEXT("flash3"),        TEXT("cudnn"),
                                     TEXT("vendor")};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* The values that are the same for all candidates. */
struct mw_context {
  double devices;
  double devices_per_node;
  double batch;
  double tokens; /* per sequence */
  double hidden;
  double layers;
  double parameters;
  double flops; /* per step */
  double peak;
  double memory_bandwidth;
  double memory_capacity;
  double inside; /* bytes/s of a device inside a node */
  double outside;
};

typedef struct Plan {
  double tensor, pipeline, chunks, data, context, micro_batch, zero_stage, offload;
  int schedule, recompute;
} Plan;

static bool Equals(mw_string a, mw_string b) {
  return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

static bool Contains(const mw_string* words, size_t count, mw_string word) {
  for (size_t i = 0; i < count; ++i) {
    if (Equals(words[i], word)) return true;
  }
  return false;
}

/* Returns text for the host, which passes it back to ReleaseText. */
static void Say(mw_text* out, const char* text) {
  const size_t length = strlen(text);
  char* const copy = malloc(length + 1);
  if (out == NULL || copy == NULL) {
    free(copy);
    return;
  }
  memcpy(copy, text, length + 1);
  out->text.data = copy;
  out->text.length = length;
}

static void ReleaseText(mw_text* text) {
  free((void*)text->text.data);
  text->text.data = NULL;
  text->text.length = 0;
}

static const char* WhyRefused(const mw_question* q, double peak) {
  if (q->pool_count != 1) return "cluster.pools: one pool is supported";
  if (!Contains(kPrecisions, LENGTH(kPrecisions), q->workload.precision)) {
    return "workload.precision is not known";
  }
  if (!Contains(kKernels, LENGTH(kKernels), q->workload.attention_kernel)) {
    return "workload.attention_kernel is not known";
  }
  /* Operators that are not in kOperators must be refused, not guessed. */
  if (q->model.mla != NULL) return "model.mla is not modelled";
  if (q->model.sliding_window > 0) return "model.sliding_window is not modelled";
  if (q->model.mtp_layer_count > 0) return "model.mtp_layer_count is not modelled";
  if (!(peak > 0)) return "the chip states no peak of workload.precision";
  const mw_pool* const pool = &q->pools[0];
  const bool has_rates = pool->memory_bandwidth_bytes_per_second > 0 && pool->node_count > 0 &&
                         pool->devices_per_node > 0 &&
                         pool->intra_node.bandwidth_bytes_per_second > 0;
  if (!has_rates) return "the pool lacks a bandwidth or a size";
  const bool has_sizes = q->model.layer_count > 0 && q->model.hidden_size > 0 &&
                         q->model.parameter_count > 0 && q->workload.sequence_length > 0 &&
                         q->workload.global_batch_size > 0;
  return has_sizes ? NULL : "the model or the workload lacks a size";
}

static mw_code OpenContext(const mw_question* q, mw_context** opened, mw_text* message) {
  double peak = 0;
  for (size_t i = 0; q->pool_count > 0 && i < q->pools[0].peak_count; ++i) {
    const mw_peak* const known = &q->pools[0].peaks[i];
    if (Equals(known->precision, q->workload.precision)) peak = known->flops_per_second;
  }
  const char* const refused = WhyRefused(q, peak);
  if (refused != NULL) {
    Say(message, refused);
    return MW_INVALID;
  }
  mw_context* const c = calloc(1, sizeof(*c));
  if (c == NULL) return MW_FAILED;
  const mw_pool* const pool = &q->pools[0];
  c->devices_per_node = pool->devices_per_node;
  c->devices = c->devices_per_node * pool->node_count;
  c->batch = q->workload.global_batch_size;
  c->tokens = q->workload.sequence_length;
  c->hidden = q->model.hidden_size;
  c->layers = q->model.layer_count;
  c->parameters = (double)q->model.parameter_count;
  const double width = (double)q->model.attention_head_count * q->model.head_dim;
  c->flops = 6 * c->batch * c->tokens *
             ((double)q->model.active_parameter_count + c->layers * width * c->tokens);
  c->peak = peak;
  c->memory_bandwidth = 0.8 * pool->memory_bandwidth_bytes_per_second;
  c->memory_capacity = (double)pool->memory_capacity_bytes;
  c->inside = 0.8 * pool->intra_node.bandwidth_bytes_per_second;
  c->outside = 0.8 * pool->inter_node.bandwidth_bytes_per_second / c->devices_per_node;
  if (!(c->outside > 0)) c->outside = c->inside;
  *opened = c;
  return MW_OK;
}

static void CloseContext(mw_context* context) { free(context); }

static int32_t At(const int32_t* column, size_t i, int32_t absent) {
  return column == NULL ? absent : column[i];
}

static Plan PlanAt(const mw_candidates* c, size_t i) {
  return (Plan){.tensor = At(c->tensor_parallel, i, 1),
                .pipeline = At(c->pipeline_parallel, i, 1),
                .chunks = At(c->virtual_pipeline, i, 1),
                .data = At(c->data_parallel, i, 1),
                .context = At(c->context_parallel, i, 1),
                .micro_batch = At(c->micro_batch_size, i, 1),
                .zero_stage = At(c->zero_stage, i, 0),
                .offload = c->optimizer_offload_ratio == NULL ? 0 : c->optimizer_offload_ratio[i],
                .schedule = At(c->schedule, i, MW_SCHEDULE_1F1B),
                .recompute = At(c->recompute, i, MW_RECOMPUTE_NONE)};
}

static double MemoryOf(const mw_context* c, const Plan* p, double micro_batches) {
  const double parameters = c->parameters / (p->tensor * p->pipeline);
  const double ranks = p->data * p->context;
  const double states = (p->zero_stage >= 3 ? 2 / ranks : 2) +
                        (p->zero_stage >= 2 ? 4 / ranks : 4) +
                        (1 - p->offload) * (p->zero_stage >= 1 ? 12 / ranks : 12);
  const double bytes = p->recompute == MW_RECOMPUTE_FULL        ? 2
                       : p->recompute == MW_RECOMPUTE_SELECTIVE ? 28 / p->tensor
                                                                : 34 / p->tensor;
  const double in_flight =
      p->schedule == MW_SCHEDULE_GPIPE ? micro_batches : fmin(p->pipeline, micro_batches);
  return parameters * states +
         bytes * p->micro_batch * c->tokens / p->context * c->hidden * c->layers / p->pipeline *
             in_flight +
         1e9;
}

/* Computes the cost of a candidate, line by line. This is the only function to change. */
static mw_candidate_status Judge(const mw_context* c, const Plan* p, double* lines, double* memory,
                                 const char** reason) {
  const bool is_wrong = p->tensor < 1 || p->pipeline < 1 || p->chunks < 1 || p->data < 1 ||
                        p->context < 1 || p->micro_batch < 1 || p->zero_stage < 0 ||
                        p->zero_stage > 3 || !(p->offload >= 0 && p->offload <= 1) ||
                        p->tensor * p->pipeline * p->data * p->context != c->devices;
  if (is_wrong) {
    *reason = "sizes that are wrong, or do not multiply to the devices of the cluster";
    return MW_CANDIDATE_ERROR;
  }
  const bool is_known = p->schedule >= MW_SCHEDULE_GPIPE && p->schedule <= MW_SCHEDULE_CHIMERA &&
                        p->recompute >= MW_RECOMPUTE_NONE && p->recompute <= MW_RECOMPUTE_FULL;
  if (!is_known) {
    *reason = "a schedule or recomputation that this model does not know";
    return MW_CANDIDATE_UNSUPPORTED;
  }
  const double micro_batches = ceil(c->batch / (p->data * p->micro_batch));
  *memory = MemoryOf(c, p, micro_batches);
  if (*memory > c->memory_capacity) {
    *reason = "more than the device has";
    return MW_CANDIDATE_INFEASIBLE_MEMORY;
  }
  const double tokens = p->micro_batch * c->tokens / p->context;
  const double small = tokens / p->tensor;
  const double again = p->recompute == MW_RECOMPUTE_FULL        ? 4.0 / 3
                       : p->recompute == MW_RECOMPUTE_SELECTIVE ? 1.03
                                                                : 1;
  lines[0] = again * c->flops / (c->devices * c->peak * 0.6 * small / (small + 256));
  const double weights = 6 * c->parameters / (p->tensor * p->pipeline) * micro_batches;
  const double kernels =
      again * 60 * tokens * c->hidden / p->tensor * c->layers / p->pipeline * micro_batches;
  lines[1] = (weights + kernels) / c->memory_bandwidth;
  lines[2] = c->layers / p->pipeline * micro_batches * 16 * tokens * c->hidden * (p->tensor - 1) /
             p->tensor / (p->tensor <= c->devices_per_node ? c->inside : c->outside);
  lines[3] = (lines[0] + lines[1] + lines[2]) * (p->pipeline - 1) / (p->chunks * micro_batches);
  return MW_CANDIDATE_OK;
}

static mw_code EstimateBatch(mw_context* context, const mw_candidates* candidates,
                             mw_estimates* out, mw_text* message) {
  (void)message;
  for (size_t i = 0; i < candidates->count; ++i) {
    const Plan plan = PlanAt(candidates, i);
    double lines[kLineCount] = {0};
    double memory = 0;
    const char* reason = NULL;
    out->status[i] = Judge(context, &plan, lines, &memory, &reason);
    if (reason != NULL) out->reason[i] = (mw_string){reason, strlen(reason)};
    if (out->status[i] != MW_CANDIDATE_OK) continue;
    double seconds = 0;
    for (int line = 0; line < kLineCount; ++line) seconds += lines[line];
    out->step_time_seconds[i] = seconds;
    out->step_time_low_seconds[i] = 0.8 * seconds;
    out->step_time_high_seconds[i] = 1.3 * seconds;
    out->peak_memory_bytes[i] = (int64_t)memory;
    if (out->breakdown_seconds == NULL) continue;
    memcpy(out->breakdown_seconds + i * kLineCount, lines, sizeof(lines));
  }
  return MW_OK;
}

static mw_code Explain(mw_context* context, const mw_candidates* candidate, mw_text* lines) {
  const Plan plan = PlanAt(candidate, 0);
  double seconds[kLineCount] = {0};
  double memory = 0;
  const char* reason = NULL;
  if (Judge(context, &plan, seconds, &memory, &reason) != MW_CANDIDATE_OK) {
    Say(lines, reason);
    return MW_OK;
  }
  char text[256];
  snprintf(text, sizeof(text),
           "matmul %.6f s\nmemory_bound %.6f s\ntensor_parallel %.6f s\npipeline_bubble %.6f s",
           seconds[0], seconds[1], seconds[2], seconds[3]);
  Say(lines, text);
  return MW_OK;
}

static mw_code LowerBound(mw_context* context, const mw_candidates* candidates, double* seconds) {
  for (size_t i = 0; i < candidates->count; ++i) {
    seconds[i] = context->flops / (context->devices * context->peak);
  }
  return MW_OK;
}

static const mw_info kInfo = {.size = sizeof(mw_info),
                              .name = TEXT("roofline-c"),
                              .vendor = TEXT("Example"),
                              .version = TEXT("1.0.0"),
                              .description = TEXT("Template in C: FLOPs over peak, bytes over "
                                                  "bandwidth"),
                              .chips = kChips,
                              .chip_count = LENGTH(kChips),
                              .precisions = kPrecisions,
                              .precision_count = LENGTH(kPrecisions),
                              .operators = kOperators,
                              .operator_count = LENGTH(kOperators),
                              .is_deterministic = true,
                              .max_batch_size = 8192,
                              .max_concurrent_batches = 4,
                              .candidates_per_second = 20000};

static const mw_costmodel_api kApi = {.size = sizeof(mw_costmodel_api),
                                      .abi_major = MW_COSTMODEL_ABI_MAJOR,
                                      .abi_minor = MW_COSTMODEL_ABI_MINOR,
                                      .info = &kInfo,
                                      .breakdown_names = kLines,
                                      .breakdown_name_count = kLineCount,
                                      .open_context = OpenContext,
                                      .close_context = CloseContext,
                                      .estimate_batch = EstimateBatch,
                                      .release_text = ReleaseText,
                                      .explain = Explain,
                                      .lower_bound = LowerBound};

const mw_costmodel_api* meshwright_costmodel_get_api(uint32_t host_major, uint32_t host_minor) {
  (void)host_minor; /* minor versions only add */
  return host_major == MW_COSTMODEL_ABI_MAJOR ? &kApi : NULL;
}
