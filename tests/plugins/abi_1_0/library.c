/* A vendor's library as it was built against ABI 1.0, which lies beside it. Neither is ever edited:
 * what hosts do from now on, they must do with this one too. It uses every function of the table.
 */

#include <stdlib.h>
#include <string.h>

#include "tests/plugins/abi_1_0/meshwright_costmodel.h"

#define TEXT(literal) \
  { (literal), sizeof(literal) - 1 }

struct mw_context {
  double seconds; /* of a step at half of the peak */
  double efficiency;
};

static const mw_string kAny[] = {TEXT("*")};
static const mw_string kPrecisions[] = {TEXT("bf16")};
static const mw_string kLines[] = {TEXT("matmul")};
static const mw_calibration_test kTests[] = {
    {TEXT("efficiency"), TEXT("share of the peak"), TEXT("ratio")}};

static const mw_info kInfo = {.size = sizeof(mw_info),
                              .name = TEXT("abi-1-0"),
                              .vendor = TEXT("Tests"),
                              .version = TEXT("1"),
                              .chips = kAny,
                              .chip_count = 1,
                              .precisions = kPrecisions,
                              .precision_count = 1,
                              .is_deterministic = true};

static void Say(mw_text* out, const void* text, size_t length) {
  char* const copy = malloc(length);
  if (copy == NULL) return;
  memcpy(copy, text, length);
  out->text.data = copy;
  out->text.length = length;
}

static void ReleaseText(mw_text* text) {
  free((void*)text->text.data);
  text->text.data = NULL;
}

static mw_code OpenContext(const mw_question* question, mw_context** context, mw_text* message) {
  const mw_pool* const pool = question->pools;
  double efficiency = 0.5;
  if (question->calibration != NULL) {
    if (question->calibration_length != sizeof(efficiency)) {
      Say(message, "no parameters", 13);
      return MW_INVALID;
    }
    memcpy(&efficiency, question->calibration, sizeof(efficiency));
  }
  mw_context* const made = malloc(sizeof(*made));
  if (made == NULL) return MW_FAILED;
  made->efficiency = efficiency;
  made->seconds = 6 * (double)question->model.active_parameter_count *
                  question->workload.global_batch_size * question->workload.sequence_length /
                  (pool->peaks[0].flops_per_second * pool->node_count * pool->devices_per_node) /
                  0.5;
  *context = made;
  return MW_OK;
}

static void CloseContext(mw_context* context) { free(context); }

static mw_code EstimateBatch(mw_context* context, const mw_candidates* candidates,
                             mw_estimates* estimates, mw_text* message) {
  (void)message;
  for (size_t i = 0; i < candidates->count; ++i) {
    const int32_t tensor = candidates->tensor_parallel ? candidates->tensor_parallel[i] : 1;
    estimates->status[i] = MW_CANDIDATE_OK;
    estimates->step_time_seconds[i] =
        context->seconds * 0.5 / context->efficiency * (1 + 0.125 * tensor);
    if (estimates->breakdown_seconds != NULL) {
      estimates->breakdown_seconds[i] = estimates->step_time_seconds[i];
    }
  }
  return MW_OK;
}

static mw_code Explain(mw_context* context, const mw_candidates* candidate, mw_text* lines) {
  (void)context;
  (void)candidate;
  Say(lines, "first\nsecond", 12);
  return MW_OK;
}

static mw_code LowerBound(mw_context* context, const mw_candidates* candidates, double* seconds) {
  for (size_t i = 0; i < candidates->count; ++i) seconds[i] = context->seconds / 2;
  return MW_OK;
}

static mw_code ListTests(mw_string chip, const mw_calibration_test** tests, size_t* count) {
  (void)chip;
  *tests = kTests;
  *count = 1;
  return MW_OK;
}

static mw_code Fit(mw_string chip, const mw_measurement* measurements, size_t count,
                   mw_text* calibration, mw_text* message) {
  (void)chip;
  if (count != 1 || !(measurements[0].value > 0 && measurements[0].value <= 1)) {
    Say(message, "not in 0 to 1", 13);
    return MW_INVALID;
  }
  Say(calibration, &measurements[0].value, sizeof(double));
  return MW_OK;
}

static const mw_costmodel_api kApi = {.size = sizeof(mw_costmodel_api),
                                      .abi_major = MW_COSTMODEL_ABI_MAJOR,
                                      .abi_minor = MW_COSTMODEL_ABI_MINOR,
                                      .info = &kInfo,
                                      .breakdown_names = kLines,
                                      .breakdown_name_count = 1,
                                      .open_context = OpenContext,
                                      .close_context = CloseContext,
                                      .estimate_batch = EstimateBatch,
                                      .release_text = ReleaseText,
                                      .explain = Explain,
                                      .lower_bound = LowerBound,
                                      .list_calibration_tests = ListTests,
                                      .fit_calibration = Fit};

const mw_costmodel_api* meshwright_costmodel_get_api(uint32_t host_major, uint32_t host_minor) {
  (void)host_minor;
  return host_major == MW_COSTMODEL_ABI_MAJOR ? &kApi : NULL;
}
