#include "cli/commands/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>

#include "cli/input/stated_names.h"
#include "cli/input/tune_flags.h"
#include "cli/local/local_models.h"
#include "cli/local/local_store.h"
#include "cli/program/answer_head.h"
#include "cli/program/field_names.h"
#include "cli/program/interrupt.h"
#include "cli/program/terminal.h"
#include "cli/reports/csv_lists.h"
#include "cli/reports/explain_report.h"
#include "cli/reports/print_answer.h"
#include "search_space/base/status.h"
#include "server/convert/convert.h"
#include "server/process/exit_code.h"
#include "server/rpc/client/client.h"
#include "server/tuner/answers/sweep.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {
namespace {

absl::Status DevicesMistake(const std::string& description) {
  return InvalidFields({{.field = "devices", .description = description}});
}

std::optional<int> CountIn(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_count = error == std::errc() && end == text.data() + text.size() && value >= 1;
  return is_count ? std::optional(value) : std::nullopt;
}

// Returns how many nodes like the cluster's each number of devices takes.
absl::StatusOr<std::vector<int>> NodesFor(const std::vector<int>& devices, const Problem& problem) {
  const int per_node = problem.cluster.pools.front().devices_per_node;
  std::vector<int> nodes;
  for (const int count : devices) {
    if (count % per_node != 0) {
      return DevicesMistake(
          fmt::format("{}; must be a multiple of the {} devices of a node", count, per_node));
    }
    nodes.push_back(count / per_node);
  }
  return nodes;
}

absl::StatusOr<v1::SweepResponse> AskFor(Parsed<v1::TuneRequest> asked, const SweepFlags& sweep,
                                         const GlobalFlags& flags) {
  ASSIGN_OR_RETURN(const Knowledge knowledge, LoadKnowledge(flags.chips));
  ASSIGN_OR_RETURN(const ResolvedStudy study,
                   FromWire(asked.message, knowledge, std::move(asked.violations)));
  v1::SweepRequest wire;
  *wire.mutable_question() = asked.message;
  wire.mutable_free_memory_ratios()->Assign(sweep.free_memory.begin(), sweep.free_memory.end());
  if (!sweep.devices.empty()) {
    ASSIGN_OR_RETURN(const std::vector<int> devices, DeviceCounts(sweep.devices));
    ASSIGN_OR_RETURN(const std::vector<int> nodes, NodesFor(devices, study.problem));
    wire.mutable_node_counts()->Assign(nodes.begin(), nodes.end());
  }
  const Interrupt interrupt;
  if (!flags.server.empty()) {
    ASSIGN_OR_RETURN(Client client, Client::Connect(flags.server));
    return client.Sweep(wire, {.cancel = interrupt.token()});
  }
  ASSIGN_OR_RETURN(const LocalModels models, LocalModels::Open(flags.cost_models));
  ASSIGN_OR_RETURN(HistorySource history,
                   LocalHistory(flags.store, knowledge, study.request.history_sequence));
  ASSIGN_OR_RETURN(const Sweep answer, RunSweep(study.request, NodeCounts(wire, study.request),
                                                FreeMemoryRatios(wire), knowledge,
                                                {.cancel = interrupt.token(),
                                                 .history = std::move(history),
                                                 .open_model = models.opener()}));
  return ToWire(answer);
}

}  // namespace

absl::StatusOr<std::vector<int>> DeviceCounts(const std::string& text) {
  const std::size_t dots = text.find("..");
  std::vector<int> counts;
  if (dots != std::string::npos) {
    const std::optional<int> low = CountIn(text.substr(0, dots));
    const std::optional<int> high = CountIn(text.substr(dots + 2));
    if (!low || !high || *low > *high) {
      return DevicesMistake(text + "; must be a range such as 64..1024");
    }
    for (int count = *low; count<*high; count = count> * high / 2 ? *high : 2 * count) {
      counts.push_back(count);
    }
    counts.push_back(*high);
    return counts;
  }
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::optional<int> count = CountIn(part);
    if (!count) return DevicesMistake(part + "; must be a whole number >= 1");
    counts.push_back(*count);
  }
  return counts;
}

int RunSweepCommand(const TuneFlags& question, const SweepFlags& sweep, const GlobalFlags& flags) {
  Parsed<v1::TuneRequest> asked = ReadTuneRequest(question);
  PrintNotes(asked.notes);
  const v1::AnswerHead head = HeadOf(kExitDone, "", asked.message);
  const auto answer = AskFor(std::move(asked), sweep, flags);
  if (!answer.ok()) {
    FieldNames names = NamesOf(question);
    names.insert(names.end(), {{.field = "devices", .flag = "--devices"},
                               {.field = "node_counts", .flag = "--devices"},
                               {.field = "free_memory_ratios", .flag = "--free-memory"}});
    return Fail(NamedAsStated(answer.status(), names), flags.output);
  }
  if (flags.output == OutputForm::kJson) {
    PrintJsonAnswer(*answer, head);
    return kExitDone;
  }
  const v1::SweepResponse shown = ForTerminal(*answer);
  PrintData(flags.output == OutputForm::kCsv
                ? SweepCsv(shown, sweep.device_hour_price)
                : SweepReport(shown, sweep.device_hour_price, StdoutColumns()));
  return kExitDone;
}

}  // namespace meshwright
