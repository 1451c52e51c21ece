#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/input/input_files.h"
#include "cli/input/tune_flags.h"
#include "cli/local/local_models.h"
#include "cli/local/local_store.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "proto/json/json.h"
#include "search_space/base/status.h"
#include "server/convert/convert.h"
#include "server/process/exit_code.h"
#include "server/rpc/client/client.h"
#include "server/tuner/answers/evaluate.h"
#include "server/tuner/learning/prepare.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/question_resolver.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/asked_model.h"

namespace meshwright {
namespace {

// Enough work for all threads between two writes, and few enough lines that answers come soon.
constexpr std::size_t kChunkLines = 1024;

struct EvaluateOptions {
  std::string cases = {};
  std::string history = {};  // empty: none
  CostModelFlags cost_model = {};
  int workers = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
};

struct AnsweredLine {
  std::string text = {};
  bool is_json_object = true;
};

std::string FailedText(const v1::EvaluateCase& asked, const absl::Status& status) {
  v1::FailedCase failed;
  if (asked.has_id()) failed.set_id(asked.id());
  *failed.mutable_error() = ToCaseError(status);
  return PrintJson(failed, {});
}

AnsweredLine AnswerLine(const std::string& line, QuestionResolver& resolver, Calibrator& calibrator,
                        CaseModel& model) {
  const Parsed<v1::EvaluateCase> asked = ParseCase(line);
  const auto answer = [&]() -> absl::StatusOr<CalibratedEstimate> {
    ASSIGN_OR_RETURN(const ResolvedCase resolved, CheckCase(asked, resolver));
    ASSIGN_OR_RETURN(CalibratedEstimate evaluated, EvaluatePlan(resolved, calibrator));
    RETURN_IF_ERROR(model.Apply(resolved, evaluated.estimate));
    return evaluated;
  };
  const auto evaluated = answer();
  if (!evaluated.ok()) {
    return {.text = FailedText(asked.message, evaluated.status()),
            .is_json_object = asked.is_json_object};
  }
  v1::Estimate wire = ToWire(*evaluated);
  if (asked.message.has_id()) wire.set_id(asked.message.id());
  return {.text = PrintJson(wire, {})};
}

// Answers a chunk of lines in their order.
using ChunkAnswerer =
    std::function<absl::StatusOr<std::vector<AnsweredLine>>(std::span<const std::string> lines)>;

// The part that all answers share.
struct EvaluateSetup {
  const Knowledge& knowledge;
  const std::vector<HistoryRow>& history;
  const HistorySource& stored;
  std::optional<CostModelRequest> cost_model = {};
  OpenPlanModel open_model = {};
};

// Shares the lines among threads. The answer of a line depends on no other line, so the number of
// threads does not change the answers.
std::vector<AnsweredLine> AnswerOnThreads(std::span<const std::string> lines, int workers,
                                          const EvaluateSetup& setup) {
  std::vector<AnsweredLine> answers(lines.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    Calibrator calibrator(setup.history, setup.knowledge, setup.stored);
    QuestionResolver resolver(setup.knowledge);
    CaseModel model(setup.cost_model, setup.open_model);
    for (std::size_t i = next++; i < lines.size(); i = next++) {
      answers[i] = AnswerLine(lines[i], resolver, calibrator, model);
    }
  };
  std::vector<std::jthread> threads;
  for (int i = 1; i < workers; ++i) threads.emplace_back(work);
  work();
  threads.clear();  // joins
  return answers;
}

// Asks a server. Lines whose JSON is wrong are answered here, because they cannot be sent.
class ServedAnswerer {
 public:
  ServedAnswerer(Client client, const Knowledge& knowledge, v1::EvaluatePlansRequest history)
      : client_(std::move(client)), resolver_(knowledge), history_(std::move(history)) {}

  absl::StatusOr<std::vector<AnsweredLine>> Answer(std::span<const std::string> lines) {
    std::vector<AnsweredLine> answers(lines.size());
    std::vector<std::size_t> asked_lines;
    v1::EvaluatePlansRequest request = history_;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      Parsed<v1::EvaluateCase> asked = ParseCase(lines[i]);
      if (asked.violations.empty()) {
        asked_lines.push_back(i);
        *request.add_cases() = std::move(asked.message);
        continue;
      }
      answers[i] = {.text = FailedText(asked.message, CheckCase(asked, resolver_).status()),
                    .is_json_object = asked.is_json_object};
    }
    if (asked_lines.empty()) return answers;
    ASSIGN_OR_RETURN(const v1::EvaluatePlansResponse response, client_.EvaluatePlans(request));
    for (std::size_t i = 0; i < asked_lines.size(); ++i) {
      const v1::EvaluateAnswer& answer = response.answers(static_cast<int>(i));
      answers[asked_lines[i]].text =
          answer.has_estimate() ? PrintJson(answer.estimate(), {}) : PrintJson(answer.failed(), {});
    }
    return answers;
  }

 private:
  Client client_;
  QuestionResolver resolver_;
  const v1::EvaluatePlansRequest history_;
};

bool IsBlank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
}

std::vector<std::string> ReadChunk(std::istream& in) {
  std::vector<std::string> lines;
  std::string line;
  while (lines.size() < kChunkLines && std::getline(in, line)) {
    if (!IsBlank(line)) lines.push_back(line);
  }
  return lines;
}

int AnswerAll(std::istream& in, const ChunkAnswerer& answer, OutputForm output) {
  int exit_code = kExitDone;
  for (auto lines = ReadChunk(in); !lines.empty(); lines = ReadChunk(in)) {
    const auto answers = answer(lines);
    if (!answers.ok()) return Fail(answers.status(), output);
    std::string text;
    for (const AnsweredLine& line : *answers) {
      text.append(line.text).append("\n");
      if (!line.is_json_object) exit_code = kExitInvalidInput;
    }
    PrintData(text);
    std::fflush(stdout);
  }
  if (exit_code != kExitDone) {
    PrintNote("error: at least one line of the cases is not a JSON object");
  }
  return exit_code;
}

int EvaluateServed(std::istream& in, const EvaluateOptions& options, const GlobalFlags& flags,
                   const Knowledge& knowledge) {
  auto history = ReadHistory(options.history, knowledge);
  if (!history.ok()) return Fail(history.status(), flags.output);
  auto client = Client::Connect(flags.server);
  if (!client.ok()) return Fail(client.status(), flags.output);
  if (!options.cost_model.name.empty()) {
    v1::CostModelRequest& asked = *history->stated.mutable_cost_model();
    asked.set_name(options.cost_model.name);
    asked.set_allow_fallback(options.cost_model.allow_fallback);
  }
  ServedAnswerer answerer(*std::move(client), knowledge, std::move(history->stated));
  return AnswerAll(
      in, [&](std::span<const std::string> lines) { return answerer.Answer(lines); }, flags.output);
}

int EvaluateEmbedded(std::istream& in, const EvaluateOptions& options, const GlobalFlags& flags,
                     const Knowledge& knowledge) {
  const auto history = ReadHistory(options.history, knowledge);
  if (!history.ok()) return Fail(history.status(), flags.output);
  const auto stored = LocalHistory(flags.store, knowledge, std::nullopt);
  if (!stored.ok()) return Fail(stored.status(), flags.output);
  const auto models = LocalModels::Open(flags.cost_models);
  if (!models.ok()) return Fail(models.status(), flags.output);
  EvaluateSetup setup = {.knowledge = knowledge,
                         .history = history->rows,
                         .stored = *stored,
                         .open_model = models->opener()};
  if (!options.cost_model.name.empty()) {
    setup.cost_model = {.name = options.cost_model.name,
                        .allow_fallback = options.cost_model.allow_fallback};
  }
  const auto answer = [&](std::span<const std::string> lines) {
    return AnswerOnThreads(lines, options.workers, setup);
  };
  return AnswerAll(in, answer, flags.output);
}

int Evaluate(const EvaluateOptions& options, const GlobalFlags& flags) {
  std::ifstream file;
  if (options.cases != "-") {
    file.open(options.cases, std::ios::binary);
    if (!file) {
      const FieldViolation violation = {.field = "cases",
                                        .description = options.cases + "; cannot be read"};
      return Fail(InvalidFields({violation}), flags.output);
    }
  }
  std::istream& in = options.cases == "-" ? std::cin : file;
  const auto knowledge = LoadKnowledge(flags.chips);
  if (!knowledge.ok()) return Fail(knowledge.status(), flags.output);
  return flags.server.empty() ? EvaluateEmbedded(in, options, flags, *knowledge)
                              : EvaluateServed(in, options, flags, *knowledge);
}

}  // namespace

void AddEvaluateCommand(CLI::App& app, Program& program) {
  auto options = std::make_shared<EvaluateOptions>();
  CLI::App& command =
      *app.add_subcommand("evaluate", "estimate given plans, one JSON object a line");
  command
      .add_option("--cases", options->cases,
                  "JSON lines {\"id\",\"model\",\"workload\",\"cluster\",\"plan\"}; - is stdin")
      ->required();
  command.add_option("--history", options->history,
                     "JSON lines with measured results of earlier runs");
  AddCostModelOptions(command, options->cost_model);
  command.add_option("--workers", options->workers, "number of threads (all cores)")
      ->check(CLI::Range(1, 1024));
  command.callback([options, &program] {
    program.run = [options, &program] { return Evaluate(*options, program.flags); };
  });
}

}  // namespace meshwright
