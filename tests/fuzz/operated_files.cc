#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/base/clean_text.h"
#include "server/auth/callers.h"
#include "server/launchers/jobs/attempt_result.h"
#include "server/launchers/kubernetes/kubernetes_jobs.h"
#include "server/launchers/kubernetes/kubernetes_object.h"
#include "server/launchers/kubernetes/kubernetes_template.h"
#include "server/launchers/slurm/slurm_jobs.h"
#include "server/plugins/manifest.h"
#include "server/plugins/wire/calibration.h"
#include "server/process/shell_word.h"
#include "server/tuner/placement/integer_program.h"
#include "server/tuner/placement/linear_text.h"
#include "server/tuner/question/job_template.h"
#include "server/tuner/trials/harness_progress.h"
#include "tests/files/temporary_folder.h"
#include "tests/fuzz/targets.h"

namespace meshwright {
namespace {

const TemporaryFolder& FilesOfInputs() {
  static const TemporaryFolder kFolder;
  return kFolder;
}

}  // namespace

BrokenLaw CallersLaw(std::string_view input) {
  const auto callers = CallerList::Parse(input, "callers");
  if (!callers.ok()) return ErrorLaw(callers.status());
  return Holds(!callers->OfToken("").has_value(), "an empty token is nobody's");
}

BrokenLaw ModelManifestLaw(std::string_view input) {
  FilesOfInputs().Write("models/model.json", std::string(input));
  const auto manifests = LoadManifests(FilesOfInputs().File("models"));
  const std::vector<CalibrationTest> tests = {{.name = "gemm"}, {.name = "copy"}};
  return First({ErrorLaw(manifests.status()), ErrorLaw(ReadMeasurements(input, tests).status())});
}

BrokenLaw HarnessFilesLaw(std::string_view input) {
  const std::string text(input);
  const auto result = ParseAttemptResult(text);
  if (auto broken = ErrorLaw(result.status())) return broken;
  if (result.ok() && TextMistake(result->message, TextLayout::kLines).has_value()) {
    return "the message of a result is clean";
  }
  const std::string& folder = FilesOfInputs().path();
  FilesOfInputs().Write("attempt.progress.jsonl", text);
  FilesOfInputs().Write("attempt.out", text);
  if (const auto progress = ReadHarnessProgress(folder, "attempt", 1)) {
    if (progress->step_count < 0) return "steps are counted from 0";
  }
  const LogEnds log = ReadLogEnds(folder, "attempt");
  return First({Holds(!TextMistake(log.head, TextLayout::kLines).has_value(), "a log is clean"),
                Holds(!TextMistake(log.tail, TextLayout::kLines).has_value(), "a log is clean")});
}

BrokenLaw JobWordsLaw(std::string_view input) {
  const auto variable = VariableMistake(input);
  if (variable.has_value()) {
    if (auto broken = ViolationsLaw({{{.field = "f", .description = *variable}}})) return broken;
  }
  const auto mistake = PlaceholderMistake(input);
  if (mistake.has_value()) return ViolationsLaw({{{.field = "f", .description = *mistake}}});
  WithPlaceholders(input, [](std::string_view name) { return std::string(name); });
  // A shell takes the word as it is: between quotes, each of which inside it ends and begins them.
  const std::string word = ShellWord(input);
  return First({Holds(word.size() >= input.size() + 2, "a word has its quotes"),
                Holds(word.front() == '\'' && word.back() == '\'', "a word stands in quotes")});
}

BrokenLaw KubernetesAnswersLaw(std::string_view input) {
  static const auto* const kTemplate =
      new KubernetesTemplate(LoadKubernetesTemplate("job").value());
  const std::string text(input);
  const auto jobs = ParseJobs(text, *kTemplate);
  const auto pods = ParsePods(text, kTemplate->pod_label);
  const auto workloads = ParseWorkloads(text);
  UidOf(text);
  AttemptOf(text);
  MessageOf(text);
  if (jobs.ok() && pods.ok() && workloads.ok()) {
    for (const KubernetesJob& job : *jobs) {
      ViewOf(job, *pods, workloads->empty() ? nullptr : &workloads->front());
    }
  }
  return First({ErrorLaw(jobs.status()), ErrorLaw(pods.status()), ErrorLaw(workloads.status())});
}

BrokenLaw KubernetesTemplateLaw(std::string_view input) {
  const auto read = ParseKubernetesTemplate(std::string(input));
  if (!read.ok()) return ErrorLaw(read.status());
  const KubernetesOptions options = {.name_space = "n", .image = "i", .device_resource = "d"};
  const JobSpec job = {.attempt_id = "attempt", .folder = "/folder", .command = {"true"}};
  return First(
      {ErrorLaw(CheckJob(*read, options, job)), ErrorLaw(JobObject(*read, options, job).status())});
}

BrokenLaw SlurmAnswersLaw(std::string_view input) {
  for (const auto& jobs : {ParseSqueue(input), ParseSacct(input), ParseCompletion(input)}) {
    for (const SlurmJob& job : jobs) StatusOf(job);
  }
  IsHopeless(input);
  // 65,536 nodes are the most that Slurm has.
  return Holds(NodeNames(input).size() <= 65'536 + input.size(),
               "a list has no more nodes than a cluster");
}

BrokenLaw SolverFilesLaw(std::string_view input) {
  IntegerProgram program = {.node_counts = {6}};
  program.jobs.push_back({.options = {{.uses = {{.node_count = 4}}, .value = 3},
                                      {.option = 2, .uses = {{.node_count = 2}}, .value = 1.5}}});
  program.jobs.push_back(
      {.is_required = true, .options = {{.option = 1, .uses = {{.node_count = 4}}, .value = 1}}});
  static const auto* const kText = new LinearText(LinearTextOf(program));
  for (const auto& reply : {ReadCbcSolution(input, *kText), ReadGlpkSolution(input, *kText)}) {
    if (auto broken = ErrorLaw(reply.status())) return broken;
    if (!reply.ok()) continue;
    for (const std::size_t variable : reply->chosen) {
      if (variable >= kText->variables.size()) return "a chosen variable is one of the program's";
    }
  }
  return std::nullopt;
}

}  // namespace meshwright
