#include "search_space/spec/plan.h"

#include <algorithm>
#include <cassert>
#include <cstdint>

namespace meshwright {
namespace {

int ShareOf(int layers, double ratio) {
  // 0.29 x 100 is a little less than 29 in binary.
  constexpr double kRounding = 1e-9;
  return std::clamp(static_cast<int>(ratio * layers + kRounding), 0, layers);
}

}  // namespace

int OffloadedLayers(double ratio, int layers) {
  return std::min(ShareOf(layers, ratio), std::max(0, layers - 1));
}

int WholeLayers(double ratio, int layers) { return ShareOf(layers, ratio); }

int StageCount(const ParallelPlan& plan) {
  return plan.stages.empty() ? plan.pipeline_parallel : static_cast<int>(plan.stages.size());
}

int MicroBatchCount(const ParallelPlan& plan, int global_batch_size) {
  // All stages of a mixed cluster run the same micro-batches, so the first one is representative.
  const int data_parallel =
      plan.stages.empty() ? plan.data_parallel : plan.stages.front().data_parallel;
  const int micro_batch_size =
      plan.stages.empty() ? plan.micro_batch_size : plan.stages.front().micro_batch_size;
  const std::int64_t sequences = std::int64_t{data_parallel} * micro_batch_size;
  assert(sequences > 0);
  return static_cast<int>(global_batch_size / sequences);
}

}  // namespace meshwright
