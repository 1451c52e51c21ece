#include "cli/reports/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/reports/learnt_lines.h"
#include "cli/reports/table.h"
#include "cli/reports/tune_report.h"
#include "cli/reports/words.h"
#include "cli/reports/wrap.h"
#include "search_space/base/count_text.h"

namespace meshwright {
namespace {

template <typename Value>
Value At(const google::protobuf::Map<std::string, Value>& map, const std::string& key) {
  const auto found = map.find(key);
  return found == map.end() ? Value() : found->second;
}

std::string Signed(double value, const std::string& text) { return (value < 0 ? "-" : "+") + text; }

// Adds one row for each term that differs, the largest difference first.
template <typename Value, typename Format>
std::string DifferenceTable(const google::protobuf::Map<std::string, Value>& first,
                            const google::protobuf::Map<std::string, Value>& second,
                            const google::protobuf::Map<std::string, Value>& difference,
                            Format format) {
  std::vector<std::pair<std::string, double>> rows;
  for (const auto& [key, value] : difference) {
    if (value != 0) rows.emplace_back(key, static_cast<double>(value));
  }
  std::ranges::sort(rows, [](const auto& a, const auto& b) {
    return std::pair(-std::abs(a.second), a.first) < std::pair(-std::abs(b.second), b.first);
  });
  Table table({{},
               {.title = "first", .align = Align::kRight},
               {.title = "second", .align = Align::kRight},
               {.title = "difference", .align = Align::kRight}});
  for (const auto& [key, value] : rows) {
    table.AddRow({key, format(static_cast<double>(At(first, key))),
                  format(static_cast<double>(At(second, key))),
                  Signed(value, format(std::abs(value)))});
  }
  return rows.empty() ? "  no term differs\n" : table.Text("  ");
}

// Says between which bounds the difference of the step times is.
std::string DifferenceWords(const v1::PlanComparison& comparison) {
  const auto seconds = [](double value) { return Signed(value, SecondsText(std::abs(value))); };
  return fmt::format(
      "The second takes {} a step compared with the first; between {} and {} with a probability of "
      "80 %.",
      seconds(comparison.step_time_difference_seconds()),
      seconds(comparison.step_time_difference_low_seconds()),
      seconds(comparison.step_time_difference_high_seconds()));
}

// Returns the name of a plan in a comparison, with its id if that is known.
std::string NameWithId(std::string_view name, const std::string& digest) {
  return digest.empty() ? std::string(name) : fmt::format("{} (plan {})", name, digest);
}

// Says which plan is faster and how sure that is, a sentence a line.
std::string Verdict(const v1::PlanComparison& comparison, int columns) {
  const v1::Estimate& first = comparison.first();
  const v1::Estimate& second = comparison.second();
  const double difference = comparison.step_time_difference_seconds();
  if (difference == 0) return "Both take " + SecondsText(first.step_time_seconds()) + " a step.\n";
  const bool second_is_faster = difference < 0;
  const v1::Estimate& fast = second_is_faster ? second : first;
  const v1::Estimate& slow = second_is_faster ? first : second;
  std::string text = fmt::format(
      "The {} is {:.2f}x as fast: {} against {} a step.\n", second_is_faster ? "second" : "first",
      slow.step_time_seconds() / fast.step_time_seconds(), SecondsText(fast.step_time_seconds()),
      SecondsText(slow.step_time_seconds()));
  if (!fast.fits()) text += "But it does not fit.\n";
  if (comparison.has_step_time_difference_low_seconds()) {
    text += Wrapped(DifferenceWords(comparison), columns);
  }
  const bool overlap = fast.step_time_high_seconds() >= slow.step_time_low_seconds();
  if (comparison.has_first_is_faster_probability_ratio()) {
    const double probability = comparison.first_is_faster_probability_ratio();
    text += Wrapped(fmt::format("If both run, it is the faster one with a probability of {}{}",
                                ProbabilityText(second_is_faster ? 1 - probability : probability),
                                overlap ? ", although their 80 % intervals overlap: errors that "
                                          "both estimates share cancel."
                                        : "."),
                    columns);
  } else if (overlap) {
    text += Wrapped(
        "Their 80 % intervals overlap, but errors that both estimates share cancel, so the order "
        "is "
        "more certain than the overlap suggests.",
        columns);
  }
  return text;
}

std::string MemoryLine(const std::string& name, const v1::Estimate& estimate, int columns) {
  const std::string fits =
      estimate.fits() ? fmt::format("fits ({})", ProbabilityText(estimate.fit_probability_ratio()))
                      : "does not fit";
  return Wrapped(
      fmt::format("{}: peak {} GiB, in use {} GiB of {} GiB, {}", name,
                  GibText(estimate.peak_memory_bytes()), GibText(estimate.reserved_memory_bytes()),
                  GibText(estimate.memory_capacity_bytes()), fits),
      columns, kIndent, std::string(kIndent) + kIndent);
}

// Says what measured runs have changed, only once if both estimates rest on the same runs.
std::string LearntReport(const v1::Estimate& first, const v1::Estimate& second, int columns) {
  const bool is_same = first.calibration().id() == second.calibration().id();
  std::string text;
  if (first.has_calibration()) {
    text += fmt::format("\nLearnt from measured runs{}\n", is_same ? "" : ", of the first");
    text += LearntLines(first.calibration(), columns);
  }
  if (second.has_calibration() && !is_same) {
    text +=
        "\nLearnt from measured runs, of the second\n" + LearntLines(second.calibration(), columns);
  }
  return text;
}

// Says what a step takes and what that means for the devices.
std::string StepLine(const v1::Estimate& estimate, int columns) {
  const std::string name = estimate.id().empty() ? "The plan" : estimate.id();
  return Wrapped(
      fmt::format(
          "{}: {} a step; between {} and {} with a probability of 80 %. {} tokens/s on each "
          "device, MFU {}. The estimate rests on {} figures.",
          name, SecondsText(estimate.step_time_seconds()),
          SecondsText(estimate.step_time_low_seconds()),
          SecondsText(estimate.step_time_high_seconds()),
          CountText(std::llround(estimate.tokens_per_second_per_device())),
          PercentText(estimate.model_flops_utilization_ratio()), estimate.provenance()),
      columns);
}

}  // namespace

std::string EstimateReport(const v1::Estimate& estimate, int columns) {
  std::string text = StepLine(estimate, columns) + MemoryLine("memory", estimate, columns) +
                     CostModelLine(estimate) + "\n" + BreakdownReport(estimate) +
                     (estimate.has_calibration() ? "\nLearnt from measured runs\n" +
                                                       LearntLines(estimate.calibration(), columns)
                                                 : "");
  if (!estimate.warnings().empty()) text += "\nWarnings\n";
  for (const std::string& warning : estimate.warnings()) {
    text += Wrapped(warning, columns, kIndent, std::string(kIndent) + kIndent);
  }
  return text;
}

std::string ComparisonReport(const v1::PlanComparison& comparison, int columns) {
  const v1::Estimate& first = comparison.first();
  const v1::Estimate& second = comparison.second();
  return Verdict(comparison, columns) + "\nStep time\n" +
         DifferenceTable(first.breakdown_seconds(), second.breakdown_seconds(),
                         comparison.breakdown_difference_seconds(), SecondsText) +
         "\nMemory of the busiest device\n" +
         DifferenceTable(
             first.memory_breakdown_bytes(), second.memory_breakdown_bytes(),
             comparison.memory_difference_bytes(),
             [](double bytes) { return GibText(static_cast<std::int64_t>(bytes)) + " GiB"; }) +
         MemoryLine(NameWithId("first", comparison.first_plan_digest()), first, columns) +
         MemoryLine(NameWithId("second", comparison.second_plan_digest()), second, columns) +
         LearntReport(first, second, columns);
}

}  // namespace meshwright
