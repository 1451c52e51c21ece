#include "cli/reports/csv_lists.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "cli/reports/csv.h"
#include "cli/reports/kinds_table.h"

namespace meshwright {
namespace {

using Cells = std::vector<std::string>;

void AddPlanTitles(Cells& titles) {
  titles.insert(titles.end(), {"fastest_probability_ratio", "like_count", "plan_digest", "plan"});
  AddTitles(*v1::Estimate::descriptor(), "", titles);
  AddTitles(*v1::Plan::descriptor(), "", titles);
  AddTitles(*v1::RecomputePlan::descriptor(), "recompute.", titles);
  AddTitles(*v1::RunCost::descriptor(), "run.", titles);
}

void AddPlanCells(const v1::RankedPlan& ranked, Cells& cells) {
  cells.push_back(ranked.has_fastest_probability_ratio()
                      ? fmt::format("{}", ranked.fastest_probability_ratio())
                      : "");
  cells.push_back(fmt::format("{}", ranked.like_count()));
  cells.push_back(ranked.plan_digest());
  cells.push_back(FullWords(ranked));
  AddCells(ranked.estimate(), cells);
  AddCells(ranked.plan(), cells);
  AddCells(ranked.plan().recompute(), cells);
  const std::size_t before = cells.size();
  AddCells(ranked.run(), cells);
  if (!ranked.has_run()) std::fill(cells.begin() + static_cast<int>(before), cells.end(), "");
}

Cells RankedTitles(std::string_view second) {
  Cells titles = {"rank"};
  if (!second.empty()) titles.emplace_back(second);
  AddPlanTitles(titles);
  return titles;
}

template <typename Rows>
std::string CsvOf(const Rows& rows) {
  Cells titles;
  AddTitles(*Rows::value_type::descriptor(), "", titles);
  CsvTable table(titles);
  for (const auto& row : rows) {
    Cells cells;
    AddCells(row, cells);
    table.AddRow(cells);
  }
  return table.text();
}

}  // namespace

std::string PlansCsv(const v1::TuneResult& result) {
  CsvTable table(RankedTitles(""));
  const auto add = [&](int rank, const v1::RankedPlan& ranked) {
    Cells cells = {fmt::format("{}", rank)};
    AddPlanCells(ranked, cells);
    table.AddRow(cells);
  };
  int rank = 0;
  for (const v1::RankedPlan& ranked : result.plans()) add(++rank, ranked);
  if (result.has_baseline()) add(0, result.baseline());
  return table.text();
}

std::string PlansCsv(const v1::ListPlansResponse& plans) {
  CsvTable table(RankedTitles("state"));
  for (const v1::RankedPlan& ranked : plans.plans()) {
    Cells cells = {fmt::format("{}", ranked.rank()), ranked.state()};
    AddPlanCells(ranked, cells);
    table.AddRow(cells);
  }
  return table.text();
}

std::string SweepCsv(const v1::SweepResponse& sweep, const DeviceHourPrices& prices) {
  constexpr double kTokens = 1e6;
  constexpr double kHour = 3600;
  Cells titles;
  AddTitles(*v1::SweepPoint::descriptor(), "", titles);
  if (!prices.empty()) titles.emplace_back("price_per_million_tokens");
  AddPlanTitles(titles);
  CsvTable table(titles);
  for (const v1::SweepPoint& point : sweep.points()) {
    Cells cells;
    AddCells(point, cells);
    if (point.has_best()) {
      if (!prices.empty()) {
        const double seconds = kTokens * point.device_seconds_per_token();
        const std::optional<double> price = PriceOf(prices, point.chip());
        cells.push_back(price ? fmt::format("{}", seconds / kHour * *price) : "");
      }
      AddPlanCells(point.has_launch() ? point.launch() : point.best(), cells);
    } else {
      // The figures of a point without a plan are zeros that mean nothing.
      for (std::size_t i = 0; i < cells.size(); ++i) {
        if (titles[i] == "device_seconds_per_token" || titles[i] == "is_on_front") cells[i] = "";
      }
      cells.resize(titles.size());
    }
    table.AddRow(cells);
  }
  return table.text();
}

std::string StudiesCsv(const v1::ListStudiesResponse& studies) { return CsvOf(studies.studies()); }

std::string MeasurementsCsv(const v1::ListMeasurementsResponse& measurements) {
  Cells titles;
  AddTitles(*v1::Measurement::descriptor(), "", titles);
  titles.emplace_back("retraction.reason");
  CsvTable table(titles);
  for (const v1::Measurement& row : measurements.measurements()) {
    Cells cells;
    AddCells(row, cells);
    cells.push_back(row.retraction().reason());  // empty if the measurement counts
    table.AddRow(cells);
  }
  return table.text();
}

}  // namespace meshwright
