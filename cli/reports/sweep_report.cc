#include "cli/reports/sweep_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/reports/launch_lines.h"
#include "cli/reports/table.h"
#include "cli/reports/tune_report.h"
#include "cli/reports/words.h"
#include "cli/reports/wrap.h"
#include "search_space/base/count_text.h"

namespace meshwright {
namespace {

constexpr double kSecondsPerHour = 3600;
constexpr double kTokens = 1e6;  // that a price is shown for without a run

const v1::RankedPlan& PlanOf(const v1::SweepPoint& point) {
  return point.has_launch() ? point.launch() : point.best();
}

// The columns that a sweep needs: those that would be equal in all lines are left out.
struct Shown {
  bool clusters = false;
  bool free_memory = false;
  bool run = false;
  bool energy = false;
  bool price = false;  // of the run, or of a million tokens
  bool take = false;
  bool front = false;
};

Shown ShownOf(const v1::SweepResponse& sweep, const DeviceHourPrices& prices) {
  Shown shown = {.price = !prices.empty(), .take = sweep.has_recommended_index()};
  for (const v1::SweepPoint& point : sweep.points()) {
    shown.clusters |= point.cluster_index() > 0;
    shown.free_memory |= point.free_memory_ratio() > 0;
    shown.run |= PlanOf(point).has_run();
    shown.energy |= PlanOf(point).run().has_max_device_energy_kilowatt_hours();
  }
  if (!shown.run && !shown.clusters) shown.free_memory = true;
  shown.front = !shown.run && !shown.clusters;
  return shown;
}

std::vector<Column> ColumnsOf(const Shown& shown) {
  std::vector<Column> columns;
  const auto add = [&](const char* title) {
    columns.push_back({.title = title, .align = Align::kRight});
  };
  if (shown.take) columns.push_back({.title = "take"});
  if (shown.clusters) columns.push_back({.title = "cluster"});
  add("devices");
  if (shown.free_memory) add("memory left");
  add("step time");
  if (shown.run) {
    add("days");
    add("device-hours");
    if (shown.energy) add("kWh at most");
    if (shown.price) add("price");
  } else {
    add("tokens/s");
    add(shown.price ? "price per 1e6 tokens" : "device-s per 1e6 tokens");
  }
  add("fits");
  if (shown.front) columns.push_back({.title = "front"});
  columns.push_back({.title = "plan"});
  return columns;
}

void AddRunCells(const v1::RunCost& run, const Shown& shown, std::vector<std::string>& cells) {
  cells.push_back(DaysText(run.days()));
  cells.push_back(RoundedText(run.device_hours()));
  if (shown.energy) {
    cells.push_back(run.has_max_device_energy_kilowatt_hours()
                        ? RoundedText(run.max_device_energy_kilowatt_hours())
                        : "-");
  }
  if (shown.price) cells.push_back(run.has_price() ? PriceText(run.price()) : "-");
}

std::string TokenCell(const v1::SweepPoint& point, const DeviceHourPrices& prices) {
  const double device_seconds = kTokens * point.device_seconds_per_token();
  if (prices.empty()) return fmt::format("{:.4g}", device_seconds);
  const std::optional<double> price = PriceOf(prices, point.chip());
  if (!price.has_value()) return "-";
  return fmt::format("{:.4g}", device_seconds / kSecondsPerHour * *price);
}

std::vector<std::string> CellsOf(const v1::SweepPoint& point, bool is_taken, const Shown& shown,
                                 const DeviceHourPrices& prices) {
  std::vector<std::string> cells;
  if (shown.take) cells.emplace_back(is_taken ? "*" : "");
  if (shown.clusters) cells.push_back(point.cluster_name());
  cells.push_back(CountText(point.device_count()));
  if (shown.free_memory) cells.push_back(PercentText(point.free_memory_ratio()));
  if (!point.has_best()) {
    cells.resize(ColumnsOf(shown).size() - 1, "-");
    if (shown.front) cells.back() = "";
    cells.emplace_back("nothing fits");
    return cells;
  }
  const v1::RankedPlan& plan = PlanOf(point);
  const v1::Estimate& estimate = plan.estimate();
  const double tokens = estimate.tokens_per_second_per_device() * point.device_count();
  cells.push_back(SecondsText(estimate.step_time_seconds()));
  if (shown.run) {
    AddRunCells(plan.run(), shown, cells);
  } else {
    cells.push_back(CountText(static_cast<std::int64_t>(tokens)));
    cells.push_back(TokenCell(point, prices));
  }
  cells.push_back(ProbabilityText(estimate.fit_probability_ratio()));
  if (shown.front) cells.emplace_back(point.is_on_front() ? "*" : "");
  cells.push_back(PlanWords(plan.plan()));
  return cells;
}

// Returns the indices of the points whose launch is shown: the recommended one, or one of each of
// several clusters.
std::vector<int> LaunchedPoints(const v1::SweepResponse& sweep, const Shown& shown) {
  if (shown.take) return {sweep.recommended_index()};
  std::set<int> clusters;
  std::vector<int> indices;
  for (int i = 0; i < sweep.points_size(); ++i) {
    if (!clusters.insert(sweep.points(i).cluster_index()).second) return {};
    indices.push_back(i);
  }
  if (indices.size() < 2) indices.clear();
  return indices;
}

std::string LaunchOf(const v1::SweepPoint& point, int columns) {
  std::vector<std::string> frameworks;
  const v1::RankedPlan& plan = PlanOf(point);
  for (const auto& [framework, text] : plan.exports()) frameworks.push_back(framework);
  std::ranges::sort(frameworks);
  std::string text;
  for (const std::string& framework : frameworks) {
    text += fmt::format("\nThe plan for {} devices of {}, for {}\n",
                        CountText(point.device_count()), point.cluster_name(), framework);
    text += ExportText(plan, framework, columns);
  }
  return text;
}

// Says why the plans of the points are those to launch, unless there are too many points: then only
// of the one to take.
std::string Reasons(const v1::SweepResponse& sweep, const Shown& shown, int columns) {
  constexpr int kMostTold = 6;
  std::string text;
  for (int i = 0; i < sweep.points_size(); ++i) {
    const v1::SweepPoint& point = sweep.points(i);
    const bool is_taken = shown.take && i == sweep.recommended_index();
    const bool is_told = is_taken || sweep.points_size() <= kMostTold;
    if (!is_told || !point.has_launch() || point.launch().reason().empty()) continue;
    std::string place = fmt::format("{} device{}", CountText(point.device_count()),
                                    point.device_count() == 1 ? "" : "s");
    if (shown.clusters) place += " of " + point.cluster_name();
    if (point.free_memory_ratio() > 0) {
      place += fmt::format(" with {} of the memory left", PercentText(point.free_memory_ratio()));
    }
    text += Wrapped(fmt::format("{}: {}", place, point.launch().reason()), columns, "", kIndent);
  }
  return text;
}

}  // namespace

std::optional<double> PriceOf(const DeviceHourPrices& prices, const std::string& chip) {
  auto found = prices.find(chip);
  if (found == prices.end()) found = prices.find("");
  return found == prices.end() ? std::nullopt : std::optional(found->second);
}

std::string SweepReport(const v1::SweepResponse& sweep, const DeviceHourPrices& prices,
                        int columns) {
  const Shown shown = ShownOf(sweep, prices);
  Table table(ColumnsOf(shown));
  for (int i = 0; i < sweep.points_size(); ++i) {
    const bool is_taken = sweep.has_recommended_index() && i == sweep.recommended_index();
    table.AddRow(CellsOf(sweep.points(i), is_taken, shown, prices));
  }
  std::string text;
  if (!sweep.reason().empty()) {
    const std::string lead = sweep.has_recommended_index() ? "Take " : "No size is enough: ";
    text += Wrapped(lead + sweep.reason() + ".", columns);
  }
  const auto found = std::ranges::find_if(sweep.points(), &v1::SweepPoint::has_best);
  if (found != sweep.points().end()) text += CostModelLine(found->best().estimate());
  text += table.Text("", columns);
  text += Reasons(sweep, shown, columns);
  for (const std::string& warning : sweep.warnings()) {
    text += Wrapped("warning: " + warning, columns, "", kIndent);
  }
  for (const int i : LaunchedPoints(sweep, shown)) text += LaunchOf(sweep.points(i), columns);
  return text;
}

}  // namespace meshwright
