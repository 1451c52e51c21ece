#include <fmt/format.h>

#include <optional>

#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "server/tuner/import/imported_job.h"
#include "server/tuner/import/readers.h"
#include "server/tuner/import/setting_reader.h"

namespace meshwright {

const ModelSpec* ModelOf(const ReaderContext& context, const ImportedJob& job) {
  if (context.model.has_value()) return &*context.model;
  return job.model.has_value() ? &*job.model : nullptr;
}

void SetDataParallel(SettingReader& settings, const ReaderContext& context, std::string_view keys,
                     ImportedJob& job) {
  PlanRequest& plan = job.plan;
  if (!context.devices.has_value()) return;
  const long long block = 1LL * plan.tensor_parallel.value_or(1) *
                          plan.pipeline_parallel.value_or(1) * plan.context_parallel.value_or(1);
  if (block < 1 || *context.devices % block != 0) {
    settings.Refuse(keys, fmt::format("{}; must divide the {} devices", block, *context.devices));
    return;
  }
  const int data = static_cast<int>(*context.devices / block);
  if (plan.data_parallel.has_value() && *plan.data_parallel != data) {
    settings.Refuse(keys, fmt::format("{}, with data parallelism {}; the product must be the {} "
                                      "devices",
                                      block, *plan.data_parallel, *context.devices));
    return;
  }
  plan.data_parallel = data;
}

RecomputePlan EveryLayer() { return {.granularity = RecomputeGranularity::kFull}; }

}  // namespace meshwright
