#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/input/input_files.h"
#include "cli/input/stated_case.h"
#include "cli/input/stated_names.h"
#include "cli/input/tune_flags.h"
#include "cli/local/local_models.h"
#include "cli/local/local_store.h"
#include "cli/program/field_names.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "cli/reports/comparison.h"
#include "cli/reports/print_answer.h"
#include "cli/source/connection.h"
#include "proto/json/json.h"
#include "search_space/base/status.h"
#include "server/convert/case_answers.h"
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
#include "server/tuner/search/requested_model.h"

namespace meshwright {
namespace {

// Enough work for all threads between two writes, and few enough lines that answers come soon.
constexpr std::size_t kChunkLines = 1024;

struct EvaluateOptions {
  std::string cases = {};  // empty: the case of `stated`
  CaseFlags stated = {};
  std::string pairs = {};    // empty: none
  std::string history = {};  // empty: none
  CostModelFlags cost_model = {};
  int workers = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
};

struct AnsweredLine {
  std::string text = {};
  v1::EvaluateAnswer answer = {};  // empty for a line that is none of a case
  bool is_json_object = true;
};

// Cases that are answered together, and the pairs of them that are compared.
struct Chunk {
  std::vector<std::string> lines = {};
  std::vector<Parsed<v1::CasePair>> pairs = {};
};

// Answers the lines of a chunk in their order, and then its pairs.
using ChunkAnswerer = std::function<absl::StatusOr<std::vector<AnsweredLine>>(const Chunk& chunk)>;

AnsweredLine PrintAnswer(const v1::EvaluateAnswer& answer) {
  return {.text = answer.has_estimate() ? PrintJson(answer.estimate(), {})
                                        : PrintJson(answer.failed(), {}),
          .answer = answer};
}

// Adds the answers of the chunk's pairs. `compared` holds those of the pairs without a mistake.
template <typename Compared>
void AddPairs(const Chunk& chunk, const Compared& compared, std::vector<AnsweredLine>& answers) {
  auto next = compared.begin();
  for (const Parsed<v1::CasePair>& pair : chunk.pairs) {
    if (pair.violations.empty()) {
      answers.push_back({.text = PrintJson(*next++, {})});
      continue;
    }
    v1::ComparedPair failed;
    failed.set_a(pair.message.a());
    failed.set_b(pair.message.b());
    *failed.mutable_error() = ToCaseError(InvalidFields(pair.violations));
    answers.push_back({.text = PrintJson(failed, {}), .is_json_object = pair.is_json_object});
  }
}

google::protobuf::RepeatedPtrField<v1::CasePair> ReadablePairs(const Chunk& chunk) {
  google::protobuf::RepeatedPtrField<v1::CasePair> pairs;
  for (const Parsed<v1::CasePair>& pair : chunk.pairs) {
    if (pair.violations.empty()) *pairs.Add() = pair.message;
  }
  return pairs;
}

CaseAnswer AnswerLine(const Parsed<v1::EvaluateCase>& asked, QuestionResolver& resolver,
                      Calibrator& calibrator, CaseModel& model) {
  CaseAnswer out = {.group = asked.message.group()};
  if (asked.message.has_id()) out.id = asked.message.id();
  const auto answer = [&]() -> absl::StatusOr<CalibratedEstimate> {
    ASSIGN_OR_RETURN(const ResolvedCase resolved, CheckCase(asked, resolver));
    out.plan = resolved.plan.plan;
    out.sequence_length = resolved.problem->workload.sequence_length;
    ASSIGN_OR_RETURN(CalibratedEstimate evaluated, EvaluatePlan(resolved, calibrator));
    RETURN_IF_ERROR(model.Apply(resolved, evaluated.estimate));
    return evaluated;
  };
  out.estimate = answer();
  return out;
}

// The part that all answers share.
struct EvaluateSetup {
  const Knowledge& knowledge;
  const std::vector<HistoryRow>& history;
  const HistorySource& stored;
  std::optional<CostModelRequest> cost_model = {};
  OpenPlanModel open_model = {};
};

// Shares the lines among threads. The estimate of a line depends on no other line, so the number of
// threads does not change the answers.
std::vector<AnsweredLine> AnswerOnThreads(const Chunk& chunk, int workers,
                                          const EvaluateSetup& setup) {
  std::vector<CaseAnswer> answers(chunk.lines.size());
  std::vector<char> is_json_object(chunk.lines.size());  // not bool: threads write neighbours
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    Calibrator calibrator(setup.history, setup.knowledge, setup.stored);
    QuestionResolver resolver(setup.knowledge);
    CaseModel model(setup.cost_model, setup.open_model);
    for (std::size_t i = next++; i < answers.size(); i = next++) {
      const Parsed<v1::EvaluateCase> asked = ParseCase(chunk.lines[i]);
      is_json_object[i] = static_cast<char>(asked.is_json_object);
      answers[i] = AnswerLine(asked, resolver, calibrator, model);
    }
  };
  std::vector<std::jthread> threads;
  for (int i = 1; i < workers; ++i) threads.emplace_back(work);
  work();
  threads.clear();  // joins
  std::vector<AnsweredLine> printed;
  for (const v1::EvaluateAnswer& answer : CaseAnswersToWire(answers)) {
    printed.push_back(PrintAnswer(answer));
    printed.back().is_json_object = is_json_object[printed.size() - 1] != 0;
  }
  AddPairs(chunk, ComparePairs(answers, ReadablePairs(chunk)), printed);
  return printed;
}

// Asks a server. Lines whose JSON is wrong are answered here, because they cannot be sent.
class ServedAnswerer {
 public:
  ServedAnswerer(Client client, const Knowledge& knowledge, v1::EvaluatePlansRequest history)
      : client_(std::move(client)), resolver_(knowledge), history_(std::move(history)) {}

  absl::StatusOr<std::vector<AnsweredLine>> Answer(const Chunk& chunk) {
    std::vector<AnsweredLine> answers(chunk.lines.size());
    std::vector<CaseAnswer> outlines(chunk.lines.size());  // with ids and errors only
    std::vector<std::size_t> asked_lines;
    v1::EvaluatePlansRequest request = history_;
    *request.mutable_pairs() = ReadablePairs(chunk);
    for (std::size_t i = 0; i < chunk.lines.size(); ++i) {
      Parsed<v1::EvaluateCase> asked = ParseCase(chunk.lines[i]);
      if (asked.message.has_id()) outlines[i].id = asked.message.id();
      if (asked.violations.empty()) {
        asked_lines.push_back(i);
        *request.add_cases() = std::move(asked.message);
        continue;
      }
      v1::FailedCase failed;
      if (asked.message.has_id()) failed.set_id(asked.message.id());
      outlines[i].estimate = CheckCase(asked, resolver_).status();
      *failed.mutable_error() = ToCaseError(outlines[i].estimate.status());
      answers[i] = {.text = PrintJson(failed, {}), .is_json_object = asked.is_json_object};
    }
    v1::EvaluatePlansResponse response;
    if (!asked_lines.empty() || request.pairs_size() > 0) {
      ASSIGN_OR_RETURN(response, client_.EvaluatePlans(request));
    }
    for (std::size_t i = 0; i < asked_lines.size(); ++i) {
      const v1::EvaluateAnswer& answer = response.answers(static_cast<int>(i));
      answers[asked_lines[i]] = PrintAnswer(answer);
      if (answer.has_failed()) {
        outlines[asked_lines[i]].estimate =
            absl::InvalidArgumentError(answer.failed().error().message());
      }
    }
    // A pair may name a line that was not sent, so the mistakes of pairs are found here.
    auto compared = ComparePairs(outlines, request.pairs());
    for (std::size_t i = 0; i < compared.size(); ++i) {
      if (!compared[i].has_error()) compared[i] = response.pairs(static_cast<int>(i));
    }
    AddPairs(chunk, compared, answers);
    return answers;
  }

 private:
  Client client_;
  QuestionResolver resolver_;
  const v1::EvaluatePlansRequest history_;
};

// Reads the next lines: a chunk of them, or all that follow from the first that may belong to a
// group, because the cases of a group are compared with each other.
std::vector<std::string> ReadLines(std::istream& in, bool reads_all) {
  std::vector<std::string> lines;
  std::string line;
  while ((reads_all || lines.size() < kChunkLines) && std::getline(in, line)) {
    if (IsBlank(line)) continue;
    reads_all = reads_all || line.find("\"group\"") != std::string::npos;
    lines.push_back(line);
  }
  return lines;
}

int AnswerAll(std::istream& in, std::vector<Parsed<v1::CasePair>> pairs,
              const ChunkAnswerer& answer, OutputForm output) {
  int exit_code = kExitDone;
  const bool compares = !pairs.empty();
  Chunk chunk = {.lines = ReadLines(in, compares), .pairs = std::move(pairs)};
  while (!chunk.lines.empty() || !chunk.pairs.empty()) {
    const auto answers = answer(chunk);
    if (!answers.ok()) return Fail(answers.status(), output);
    std::string text;
    for (const AnsweredLine& line : *answers) {
      text.append(line.text).append("\n");
      if (!line.is_json_object) exit_code = kExitInvalidInput;
    }
    PrintData(text);
    std::fflush(stdout);
    chunk = {.lines = ReadLines(in, false)};
  }
  if (exit_code != kExitDone) {
    PrintNote(fmt::format("error: at least one line of the cases{} is not a JSON object",
                          compares ? " or pairs" : ""));
  }
  return exit_code;
}

absl::Status NamedInFiles(const absl::Status& status, const EvaluateOptions& options) {
  FieldNames names;
  if (options.cases.empty()) names = NamesOf(options.stated);
  names.insert(names.end(), {{.field = "cases", .flag = "--cases"},
                             {.field = "pairs", .flag = "--pairs"},
                             {.field = "history", .flag = "--history", .file = options.history}});
  return NamedAsStated(status, names);
}

// The input of the command: lines of cases, or the one case that flags state.
struct Input {
  std::istream& lines;
  std::vector<Parsed<v1::CasePair>> pairs = {};
};

// Answers the case that flags state; people get a report.
int AnswerStated(std::istream& in, const ChunkAnswerer& answer, const EvaluateOptions& options,
                 OutputForm output) {
  const auto answers = answer({.lines = ReadLines(in, true)});
  if (!answers.ok()) return Fail(answers.status(), output);
  const v1::EvaluateAnswer& only = answers->front().answer;
  if (only.has_failed()) {
    return Fail(NamedInFiles(FromCaseError(only.failed().error()), options), output);
  }
  if (output == OutputForm::kTable) {
    PrintData(EstimateReport(ForTerminal(only.estimate()), StdoutColumns()));
  } else {
    PrintData(answers->front().text + "\n");
  }
  return kExitDone;
}

int Answer(Input input, const ChunkAnswerer& answer, const EvaluateOptions& options,
           OutputForm output) {
  return options.cases.empty() ? AnswerStated(input.lines, answer, options, output)
                               : AnswerAll(input.lines, std::move(input.pairs), answer, output);
}

int EvaluateServed(Input input, const EvaluateOptions& options, const GlobalFlags& flags,
                   const Knowledge& knowledge) {
  auto history = ReadHistory(options.history, knowledge);
  if (!history.ok()) return Fail(NamedInFiles(history.status(), options), flags.output);
  auto client = ConnectTo(flags);
  if (!client.ok()) return Fail(client.status(), flags.output);
  if (!options.cost_model.name.empty()) {
    v1::CostModelRequest& asked = *history->stated.mutable_cost_model();
    asked.set_name(options.cost_model.name);
    asked.set_allow_fallback(options.cost_model.allow_fallback);
  }
  ServedAnswerer answerer(*std::move(client), knowledge, std::move(history->stated));
  return Answer(
      std::move(input), [&](const Chunk& chunk) { return answerer.Answer(chunk); }, options,
      flags.output);
}

int EvaluateEmbedded(Input input, const EvaluateOptions& options, const GlobalFlags& flags,
                     const Knowledge& knowledge) {
  const auto history = ReadHistory(options.history, knowledge);
  if (!history.ok()) return Fail(NamedInFiles(history.status(), options), flags.output);
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
  const auto answer = [&](const Chunk& chunk) {
    return AnswerOnThreads(chunk, options.workers, setup);
  };
  return Answer(std::move(input), answer, options, flags.output);
}

// Returns the case that flags state as a line of --cases.
absl::StatusOr<std::string> StatedLine(const CaseFlags& flags, std::string_view site_chips) {
  const Parsed<v1::EvaluateCase> asked = ReadCase(flags, site_chips);
  if (!asked.violations.empty()) return InvalidFields(asked.violations);
  return PrintJson(asked.message, {});
}

int Evaluate(const EvaluateOptions& options, const GlobalFlags& flags) {
  std::ifstream file;
  std::istringstream line;
  if (options.cases.empty()) {
    auto text = StatedLine(options.stated, flags.chips);
    if (!text.ok()) return Fail(NamedInFiles(text.status(), options), flags.output);
    line.str(*std::move(text));
  } else if (options.cases != "-") {
    file.open(options.cases, std::ios::binary);
    if (!file) {
      const FieldViolation violation = {.field = "cases",
                                        .description = options.cases + "; cannot be read"};
      return Fail(NamedInFiles(InvalidFields({violation}), options), flags.output);
    }
  }
  std::istream& of_file = options.cases == "-" ? std::cin : file;
  std::istream& in = options.cases.empty() ? line : of_file;
  if (options.pairs == "-" && options.cases == "-") {
    const FieldViolation violation = {
        .field = "pairs", .description = "-; only one input can be stdin, and cases is"};
    return Fail(NamedInFiles(InvalidFields({violation}), options), flags.output);
  }
  auto pairs = ReadPairs(options.pairs);
  if (!pairs.ok()) return Fail(NamedInFiles(pairs.status(), options), flags.output);
  const auto knowledge = LoadKnowledge(flags.chips);
  if (!knowledge.ok()) return Fail(knowledge.status(), flags.output);
  Input input = {.lines = in, .pairs = *std::move(pairs)};
  return flags.server.empty() ? EvaluateEmbedded(std::move(input), options, flags, *knowledge)
                              : EvaluateServed(std::move(input), options, flags, *knowledge);
}

}  // namespace

void AddEvaluateCommand(CLI::App& app, Program& program) {
  auto options = std::make_shared<EvaluateOptions>();
  CLI::App& command = *app.add_subcommand(
      "evaluate", "estimate plans that you state: the one of a question, or those of --cases");
  CLI::Option* const cases = command.add_option(
      "--cases", options->cases,
      "many cases: JSON lines {\"id\",\"model\",\"workload\",\"cluster\",\"plan\"}, each answered "
      "by a line of JSON; - is stdin. Cases with the same \"group\" are alternatives and get a "
      "choice_rank");
  AddCaseOptions(command, options->stated);
  ExcludeCase(command, *cases);
  command.parse_complete_callback([options] {
    if (!options->cases.empty()) return;
    if (options->stated.plan.empty() && !HasQuestion(options->stated)) {
      throw CLI::RequiredError("--cases, or --model with --plan, or --from,");
    }
    RequireCase(options->stated);
  });
  command
      .add_option("--pairs", options->pairs,
                  "JSON lines {\"a\",\"b\"} with ids of cases; after the cases, one line each "
                  "with the probability that a's step is shorter than b's")
      ->needs(cases);
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
