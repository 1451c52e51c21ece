#include "cli/commands/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>

#include "cli/input/cluster_flags.h"
#include "cli/input/input_files.h"
#include "cli/input/stated_names.h"
#include "cli/input/tune_flags.h"
#include "cli/local/local_models.h"
#include "cli/local/local_store.h"
#include "cli/program/answer_head.h"
#include "cli/program/field_names.h"
#include "cli/program/interrupt.h"
#include "cli/program/terminal.h"
#include "cli/reports/csv_lists.h"
#include "cli/reports/print_answer.h"
#include "cli/reports/sweep_report.h"
#include "cli/source/connection.h"
#include "search_space/base/status.h"
#include "server/convert/convert.h"
#include "server/process/exit_code.h"
#include "server/rpc/client/client.h"
#include "server/tuner/answers/sweep.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_request.h"
#include "vendor_models/chip_file.h"

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

// Adds the clusters beside the first.
void ReadOthers(const ClusterFlags& flags, v1::SweepRequest& wire,
                std::vector<FieldViolation>& violations) {
  for (const ClusterFlags& other : OtherClusters(flags)) {
    const int index = wire.clusters_size();
    std::vector<FieldViolation> found;
    ReadCluster(other, *wire.add_clusters(), found);
    for (FieldViolation& violation : found) {
      violation.field = OtherField(violation.field, index);
      violations.push_back(std::move(violation));
    }
  }
}

// Returns the prices that the flags state, by the ids of the chips.
absl::StatusOr<DeviceHourPrices> PricesOf(const TuneFlags& flags, const Knowledge& knowledge) {
  std::vector<FieldViolation> violations;
  DeviceHourPrices prices;
  for (const v1::DeviceHourPrice& one : ReadPrices(flags.device_hour_prices, violations)) {
    std::string id;
    if (one.has_chip()) {
      ASSIGN_OR_RETURN(const ChipEntry* const chip, knowledge.chips.Find(one.chip()));
      id = chip->spec.id;
    }
    prices[id] = one.price();
  }
  if (!violations.empty()) return InvalidFields(violations);
  return prices;
}

struct SweepAnswer {
  v1::SweepResponse response = {};
  DeviceHourPrices prices = {};
};

absl::StatusOr<v1::SweepRequest> SweepRequestOf(Parsed<v1::TuneRequest> asked,
                                                const ClusterFlags& clusters,
                                                const SweepFlags& sweep) {
  v1::SweepRequest wire;
  ReadOthers(clusters, wire, asked.violations);
  if (!asked.violations.empty()) return InvalidFields(asked.violations);
  *wire.mutable_question() = std::move(asked.message);
  wire.mutable_free_memory_ratios()->Assign(sweep.free_memory.begin(), sweep.free_memory.end());
  if (!sweep.devices.empty()) {
    ASSIGN_OR_RETURN(const std::vector<int> devices, DeviceCounts(sweep.devices));
    wire.mutable_device_counts()->Assign(devices.begin(), devices.end());
  }
  return wire;
}

absl::StatusOr<SweepAnswer> AskFor(Parsed<v1::TuneRequest> asked, const TuneFlags& question,
                                   const SweepFlags& sweep, const GlobalFlags& flags) {
  ASSIGN_OR_RETURN(const Knowledge knowledge, LoadKnowledge(flags.chips));
  ASSIGN_OR_RETURN(const ResolvedStudy study, FromWire(asked.message, knowledge, asked.violations));
  SweepAnswer answer;
  ASSIGN_OR_RETURN(answer.prices, PricesOf(question, knowledge));
  ASSIGN_OR_RETURN(const v1::SweepRequest wire,
                   SweepRequestOf(std::move(asked), question.question.cluster, sweep));
  ASSIGN_OR_RETURN(const SweepRange range, FromWire(wire, study.request, knowledge));
  const Interrupt interrupt;
  if (!flags.server.empty()) {
    ASSIGN_OR_RETURN(Client client, ConnectTo(flags));
    ASSIGN_OR_RETURN(answer.response, client.Sweep(wire, {.cancel = interrupt.token()}));
    return answer;
  }
  ASSIGN_OR_RETURN(const LocalModels models, LocalModels::Open(flags.cost_models));
  ASSIGN_OR_RETURN(HistorySource history,
                   LocalHistory(flags.store, knowledge, study.request.history_sequence));
  ASSIGN_OR_RETURN(const Sweep swept, RunSweep(study.request, range, knowledge,
                                               {.cancel = interrupt.token(),
                                                .history = std::move(history),
                                                .open_model = models.opener()}));
  answer.response = ToWire(swept);
  return answer;
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
  Parsed<v1::TuneRequest> asked = ReadTuneRequest(question, flags.chips);
  PrintNotes(asked.notes);
  const v1::AnswerHead head = HeadOf(kExitDone, "", asked.message);
  const auto answer = AskFor(std::move(asked), question, sweep, flags);
  if (!answer.ok()) {
    FieldNames names = NamesOf(question);
    names.insert(names.end(), {{.field = "devices", .flag = "--devices"},
                               {.field = "device_counts", .flag = "--devices"},
                               {.field = "node_counts", .flag = "--devices"},
                               {.field = "free_memory_ratios", .flag = "--free-memory"}});
    return Fail(NamedAsStated(answer.status(), names), flags.output);
  }
  if (flags.output == OutputForm::kJson) {
    PrintJsonAnswer(answer->response, head);
    return kExitDone;
  }
  const v1::SweepResponse shown = ForTerminal(answer->response);
  PrintData(flags.output == OutputForm::kCsv ? SweepCsv(shown, answer->prices)
                                             : SweepReport(shown, answer->prices, StdoutColumns()));
  return kExitDone;
}

}  // namespace meshwright
