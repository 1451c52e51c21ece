#include "search_space/spec/workload.h"

#include <fmt/format.h>

#include <utility>

#include "search_space/spec/limits.h"

namespace meshwright {
namespace {

// Sanity limits; products of smaller sizes stay inside int64.
constexpr int kMaxSequenceLength = 100'000'000;
constexpr int kMaxGlobalBatchSize = 100'000'000;
constexpr double kLeastCapacityFactor = 0.1;
constexpr double kMaxCapacityFactor = 1000;

}  // namespace

std::vector<FieldViolation> Validate(const WorkloadRequest& workload, std::string_view prefix) {
  LimitChecker check(prefix);
  const auto required = [&](std::string_view field, const std::optional<int>& value, int high) {
    if (value.has_value()) {
      check.Range(field, *value, 1, high);
    } else {
      check.Missing(field);
    }
  };
  required("sequence_length", workload.sequence_length, kMaxSequenceLength);
  required("global_batch_size", workload.global_batch_size, kMaxGlobalBatchSize);
  if (const auto& dropout = workload.dropout_ratio; dropout && !(*dropout >= 0 && *dropout < 1)) {
    check.Add("dropout_ratio", fmt::format("{}; must be >= 0 and < 1", *dropout));
  }
  if (const auto& factor = workload.moe.capacity_factor;
      factor && *factor != 0 &&
      !(*factor >= kLeastCapacityFactor && *factor <= kMaxCapacityFactor)) {
    check.Add("moe.capacity_factor", fmt::format("{}; must be 0, or from {} to {}", *factor,
                                                 kLeastCapacityFactor, kMaxCapacityFactor));
  }
  return std::move(check).violations();
}

}  // namespace meshwright
