#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "search_space/spec/choice_codes.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/workload.h"

namespace meshwright {

// A field of a workload with its value as text: {"overlap.tensor_parallel", "true"}.
struct WorkloadSetting {
  std::string field = {};
  std::string value = {};
  bool operator==(const WorkloadSetting&) const = default;
};

// A field of the workload that a search may leave open: a type or a switch of the framework. Values
// are coded as in choice_codes.h.
struct WorkloadSettingRow {
  std::string_view field = {};  // its path within the workload
  std::optional<int> (*code)(std::string_view word) = nullptr;
  std::string_view (*word)(int code) = nullptr;
  std::string (*words)() = nullptr;  // all of them, for messages
  std::optional<int> (*stated)(const WorkloadRequest& workload) = nullptr;
  void (*state)(WorkloadRequest& workload, int code) = nullptr;
  int (*chosen)(const Workload& workload) = nullptr;
};

// Makes a row of `At`, which returns the field of either form of a workload.
template <typename At>
constexpr WorkloadSettingRow SettingRow(std::string_view field, At /*at*/) {
  using Value = std::remove_cvref_t<decltype(At{}(std::declval<const Workload&>()))>;
  WorkloadSettingRow row = {.field = field};
  if constexpr (std::is_same_v<Value, bool>) {
    row.code = TruthOf;
    row.word = WordOfTruth;
    row.words = Truths;
  } else {
    row.code = CodeOf<Value>;
    row.word = WordOfCode<Value>;
    row.words = AllowedWords<Value>;
  }
  row.stated = [](const WorkloadRequest& workload) {
    const std::optional<Value>& value = At{}(workload);
    return value.has_value() ? std::optional(static_cast<int>(*value)) : std::nullopt;
  };
  row.state = [](WorkloadRequest& workload, int code) {
    At{}(workload) = static_cast<Value>(code);
  };
  row.chosen = [](const Workload& workload) { return static_cast<int>(At{}(workload)); };
  return row;
}

inline constexpr std::string_view kPrecisionField = "precision";

// The precision is first, because other defaults follow it.
inline constexpr auto kWorkloadSettings = std::to_array<WorkloadSettingRow>({
    SettingRow(
        kPrecisionField, [](auto& w) -> auto& { return w.precision; }),
    SettingRow(
        "gradient_dtype", [](auto& w) -> auto& { return w.gradient_dtype; }),
    SettingRow(
        "cross_entropy_kernel", [](auto& w) -> auto& { return w.cross_entropy_kernel; }),
    SettingRow(
        "overlap.gradient_reduce", [](auto& w) -> auto& { return w.overlap.gradient_reduce; }),
    SettingRow(
        "overlap.parameter_gather", [](auto& w) -> auto& { return w.overlap.parameter_gather; }),
    SettingRow(
        "overlap.tensor_parallel", [](auto& w) -> auto& { return w.overlap.tensor_parallel; }),
    SettingRow(
        "overlap.pipeline_p2p", [](auto& w) -> auto& { return w.overlap.pipeline_p2p; }),
});

}  // namespace meshwright
