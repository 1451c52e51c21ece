#include "tests/fuzz/targets.h"

#include <algorithm>

#include "tests/files/source_folder.h"

namespace meshwright {
namespace {

constexpr FuzzTarget kTargets[] = {
    {.name = "callers", .broken_law = CallersLaw},
    {.name = "case", .broken_law = CaseLaw},
    {.name = "chip_file",
     .broken_law = ChipFileLaw,
     .also = "vendor_models/chips .json,examples/new-chip .json"},
    {.name = "clean_text", .broken_law = CleanTextLaw},
    {.name = "harness_files", .broken_law = HarnessFilesLaw},
    {.name = "history_line", .broken_law = HistoryLineLaw},
    {.name = "http_texts", .broken_law = HttpTextsLaw},
    {.name = "hugging_face",
     .broken_law = HuggingFaceLaw,
     .also = "examples/llama2-70b config.json,examples/deepseek-v3 config.json"},
    {.name = "input_file", .broken_law = InputFileLaw, .also = "examples/two-cores .json"},
    {.name = "job_report", .broken_law = JobReportLaw},
    {.name = "job_words", .broken_law = JobWordsLaw},
    {.name = "json_text", .broken_law = JsonTextLaw, .also = "examples/two-cores .json"},
    {.name = "kubernetes_answers", .broken_law = KubernetesAnswersLaw},
    {.name = "kubernetes_nodes", .broken_law = KubernetesNodesLaw},
    {.name = "kubernetes_template",
     .broken_law = KubernetesTemplateLaw,
     .also = "server/launchers/kubernetes/kubernetes_templates .json"},
    {.name = "launch_file",
     .broken_law = LaunchFileLaw,
     .also = "tests/data/launch_scripts .sh,tests/data/launch_scripts .yaml,"
             "tests/data/launch_scripts .toml,tests/data/launch_scripts .json"},
    {.name = "local_devices", .broken_law = LocalDevicesLaw},
    {.name = "microbenchmarks", .broken_law = MicrobenchmarksLaw},
    {.name = "model_manifest", .broken_law = ModelManifestLaw},
    {.name = "page_token", .broken_law = PageTokenLaw},
    {.name = "plan_key", .broken_law = PlanKeyLaw},
    {.name = "query", .broken_law = QueryLaw},
    {.name = "secrets", .broken_law = SecretsLaw},
    {.name = "shell_words", .broken_law = ShellWordsLaw},
    {.name = "slurm_answers", .broken_law = SlurmAnswersLaw},
    {.name = "slurm_nodes", .broken_law = SlurmNodesLaw},
    {.name = "solver_files", .broken_law = SolverFilesLaw},
    {.name = "training_log", .broken_law = TrainingLogLaw, .also = "tests/workloads/logs .log"},
    {.name = "tune_request", .broken_law = TuneRequestLaw, .also = "tests/scenarios .request.json"},
    {.name = "wire_bytes", .broken_law = WireBytesLaw},
    {.name = "yaml", .broken_law = YamlLaw, .also = "tests/data/launch_scripts .yaml"},
};

void AddFiles(const std::filesystem::path& folder, std::string_view end,
              std::vector<std::filesystem::path>& paths) {
  if (!std::filesystem::is_directory(folder)) return;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().string().ends_with(end)) {
      paths.push_back(entry.path());
    }
  }
}

}  // namespace

std::span<const FuzzTarget> FuzzTargets() { return kTargets; }

const FuzzTarget* FindFuzzTarget(std::string_view name) {
  const auto* found = std::ranges::find(kTargets, name, &FuzzTarget::name);
  return found == std::end(kTargets) ? nullptr : found;
}

std::vector<std::filesystem::path> SeedsOf(const FuzzTarget& target) {
  std::vector<std::filesystem::path> paths;
  AddFiles(SourceFolder() / "tests/fuzz/corpus" / target.name, "", paths);
  for (std::string_view rest = target.also; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    const std::size_t blank = part.find(' ');
    AddFiles(SourceFolder() / part.substr(0, blank), part.substr(blank + 1), paths);
  }
  std::ranges::sort(paths);
  return paths;
}

}  // namespace meshwright
