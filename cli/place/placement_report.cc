#include "cli/place/placement_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cli/reports/table.h"
#include "cli/reports/words.h"
#include "cli/reports/wrap.h"
#include "search_space/base/count_text.h"

namespace meshwright {
namespace {

// Scores are sums of shares; what is smaller is rounding.
constexpr double kNothing = 1e-9;

std::string FigureText(double value) { return fmt::format("{:.3f}", value); }

// Returns "4 of big/a", or "4 of big/a + 8 of big/b".
std::string NodesText(const google::protobuf::RepeatedPtrField<v1::PoolNodes>& nodes) {
  std::string text;
  for (const v1::PoolNodes& one : nodes) {
    text += fmt::format("{}{} of {}/{}", text.empty() ? "" : " + ", CountText(one.node_count()),
                        one.cluster(), one.pool());
  }
  return text;
}

std::string ObjectiveWords(const std::string& objective) {
  if (objective == "deadline") return "weight of the jobs that meet their deadlines";
  if (objective == "fair") return "least relative throughput";
  return "weighted sum of relative throughputs";
}

std::string Summary(const v1::PlacementAnswer& answer) {
  int placed = 0;
  for (const v1::JobPlacement& job : answer.jobs()) placed += job.nodes_size() > 0 ? 1 : 0;
  std::string text =
      fmt::format("{} of {} jobs are placed. The {} is {}", placed, answer.jobs_size(),
                  ObjectiveWords(answer.objective()), FigureText(answer.objective_value()));
  text += answer.is_proven()
              ? ", and no placement has more."
              : fmt::format(", and no placement has more than {}: the solver reached its limit.",
                            FigureText(answer.objective_bound()));
  if (answer.objective() != "throughput") {
    text += fmt::format(" The weighted sum of relative throughputs is {}.",
                        FigureText(answer.throughput_value()));
  }
  text += fmt::format(" First come, first served would have {}",
                      FigureText(answer.first_come_objective_value()));
  if (answer.objective() != "throughput") {
    text += fmt::format(", and a sum of {}", FigureText(answer.first_come_throughput_value()));
  }
  return text + ".";
}

std::string DaysCell(const v1::JobPlacement& job) {
  if (!job.has_days()) return job.has_meets_deadline() ? "late" : "-";
  const bool is_late = job.has_meets_deadline() && !job.meets_deadline();
  return DaysText(job.days()) + (is_late ? " late" : "");
}

std::string JobTable(const v1::PlacementAnswer& answer, int columns) {
  bool has_days = false;
  for (const v1::JobPlacement& job : answer.jobs()) {
    has_days |= job.has_days() || job.has_meets_deadline();
  }
  std::vector<Column> titles = {{.title = "job"}, {.title = "nodes"}};
  for (const char* const title : {"weight", "devices", "tokens/s", "of its best"}) {
    titles.push_back({.title = title, .align = Align::kRight});
  }
  if (has_days) titles.push_back({.title = "days", .align = Align::kRight});
  titles.push_back({.title = "plan"});
  Table table(titles);
  for (const v1::JobPlacement& job : answer.jobs()) {
    const bool is_placed = job.nodes_size() > 0;
    std::vector<std::string> cells = {job.name(), is_placed ? NodesText(job.nodes()) : "-",
                                      fmt::format("{:g}", job.weight())};
    cells.push_back(is_placed ? CountText(job.device_count()) : "-");
    cells.push_back(is_placed ? CountText(static_cast<std::int64_t>(job.tokens_per_second()))
                              : "-");
    cells.push_back(is_placed ? PercentText(job.throughput_ratio()) : "-");
    if (has_days) cells.push_back(DaysCell(job));
    cells.push_back(is_placed ? PlanWords(job.plan().plan()) : "not placed");
    table.AddRow(cells);
  }
  return table.Text("", columns);
}

std::string PriceText(const v1::PlacementAnswer& answer, const v1::DisplacedJob& displaced) {
  if (displaced.objective_price() > kNothing) {
    return fmt::format("To give it these would lower the objective by {}",
                       FigureText(displaced.objective_price()));
  }
  if (answer.objective() != "throughput" && displaced.throughput_price() > kNothing) {
    return fmt::format("To give it these would lower the sum of throughputs by {}",
                       FigureText(displaced.throughput_price()));
  }
  return "To give it these would be as good";
}

std::string DisplacedLine(const v1::PlacementAnswer& answer, const v1::DisplacedJob& displaced,
                          int columns) {
  std::string text =
      fmt::format("{} does without {} of its best throughput, that on {}", displaced.name(),
                  PercentText(displaced.lost_ratio()), NodesText(displaced.best_nodes()));
  if (displaced.holders_size() > 0) {
    text += fmt::format("; {} {} nodes of it", fmt::join(displaced.holders(), ", "),
                        displaced.holders_size() == 1 ? "holds" : "hold");
  }
  return Wrapped(fmt::format("{}. {}.", text, PriceText(answer, displaced)), columns, kIndent,
                 "    ");
}

std::string GainText(const v1::PlacementAnswer& answer, const v1::PoolNodeValue& pool) {
  std::string text = "nothing";
  if (pool.objective_gain() > kNothing) {
    text = fmt::format("+{}", FigureText(pool.objective_gain()));
  } else if (answer.objective() != "throughput" && pool.throughput_gain() > kNothing) {
    text = fmt::format("+{} of the sum", FigureText(pool.throughput_gain()));
  }
  return pool.is_proven() ? text : text + " (not proven)";
}

std::string PoolTable(const v1::PlacementAnswer& answer, int columns) {
  Table table({{.title = "pool"},
               {.title = "nodes", .align = Align::kRight},
               {.title = "used", .align = Align::kRight},
               {.title = "one more node brings"}});
  for (const v1::PoolNodeValue& pool : answer.pools()) {
    table.AddRow({fmt::format("{}/{}", pool.cluster(), pool.pool()), CountText(pool.node_count()),
                  CountText(pool.used_node_count()), GainText(answer, pool)});
  }
  return table.Text("", columns);
}

}  // namespace

std::string PlacementReport(const v1::PlacementAnswer& answer, int columns) {
  std::string text = Wrapped(Summary(answer), columns) + "\n" + JobTable(answer, columns);
  std::string reasons;
  for (const v1::JobPlacement& job : answer.jobs()) {
    if (job.nodes_size() > 0) continue;
    reasons += Wrapped(fmt::format("{}: {}.", job.name(), job.reason()), columns, kIndent, "    ");
  }
  if (!reasons.empty()) text += "\nNot placed\n" + reasons;
  if (answer.displaced_size() > 0) {
    text += "\nDisplaced\n";
    for (const v1::DisplacedJob& one : answer.displaced()) {
      text += DisplacedLine(answer, one, columns);
    }
  }
  text += "\n" + PoolTable(answer, columns) + "\n";
  const v1::PlacementSearch& search = answer.search();
  text +=
      Wrapped(fmt::format("{} of {} candidates have a plan, by {} searches; placed by {}.",
                          CountText(search.fitting_count()), CountText(search.candidate_count()),
                          CountText(search.question_count()), search.solver_version()),
              columns);
  for (const std::string& warning : answer.warnings()) {
    text += Wrapped("warning: " + warning, columns, "", kIndent);
  }
  return text;
}

}  // namespace meshwright
