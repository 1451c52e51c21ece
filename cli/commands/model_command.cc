#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "cli/commands/commands.h"
#include "cli/commands/model_calibration.h"
#include "cli/input/input_files.h"
#include "cli/input/whole_file.h"
#include "cli/local/local_models.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "cli/reports/model_report.h"
#include "cli/source/connection.h"
#include "search_space/base/status.h"
#include "server/convert/wire_time.h"
#include "server/plugins/accuracy.h"
#include "server/plugins/conformance/conformance.h"
#include "server/plugins/conformance/conformance_report.h"
#include "server/plugins/conformance/report_json.h"
#include "server/plugins/manifest.h"
#include "server/plugins/model_list.h"
#include "server/plugins/model_process.h"
#include "server/plugins/model_registry.h"
#include "server/plugins/running_model.h"
#include "server/plugins/stored_check.h"
#include "server/plugins/wire/calibration.h"
#include "server/plugins/wire/checksum.h"
#include "server/process/exit_code.h"
#include "server/rpc/client/client.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {
namespace {

// The chip for models that name no chip of the catalogue.
constexpr char kUsualChip[] = "nvidia-a100-sxm4-80gb";

struct CheckFlags {
  std::string name = {};  // exactly one of these three is stated
  std::string program = {};
  std::string library = {};
  std::string chip = {};      // empty: the first of the model's own that the catalogue has
  std::string measured = {};  // path; empty: none
  std::string json = {};      // path; empty: none
};

int PrintText(const std::string& text) {
  PrintData(text);
  return kExitDone;
}

absl::StatusOr<v1::ListCostModelsResponse> ModelsOf(const GlobalFlags& flags) {
  if (flags.server.empty()) {
    ASSIGN_OR_RETURN(const LocalModels models, RequireModels(flags));
    return ListCostModels(flags.cost_models, models.registry()->manifests());
  }
  ASSIGN_OR_RETURN(Client client, ConnectTo(flags));
  return client.ListCostModels();
}

int List(const GlobalFlags& flags) {
  const auto list = ModelsOf(flags);
  if (!list.ok()) return Fail(list.status(), flags.output);
  return PrintText(flags.output == OutputForm::kJson ? ListJson(*list) : ModelTable(*list));
}

absl::StatusOr<ShownModel> StartModel(const std::string& name, const GlobalFlags& flags) {
  ASSIGN_OR_RETURN(const LocalModels models, RequireModels(flags));
  ShownModel shown;
  ASSIGN_OR_RETURN(shown.manifest, FindManifest(models.registry()->manifests(), name));
  ASSIGN_OR_RETURN(const std::shared_ptr<RunningModel> model, models.registry()->Find(name));
  ASSIGN_OR_RETURN(shown.info, model->Start({}));
  shown.isolation = model->Isolation();
  shown.calibrated_chips = CalibratedChips(flags.cost_models, name);
  return shown;
}

int Show(const std::string& name, const GlobalFlags& flags) {
  const auto shown = StartModel(name, flags);
  if (!shown.ok()) return Fail(shown.status(), flags.output);
  return PrintText(flags.output == OutputForm::kJson ? ShowJson(*shown) : ModelReport(*shown));
}

// Returns the manifest of the model to check. A program or library that is named on the command
// line is run as it is.
absl::StatusOr<ModelManifest> ManifestOf(const CheckFlags& check, const GlobalFlags& flags) {
  const int stated = (check.name.empty() ? 0 : 1) + (check.program.empty() ? 0 : 1) +
                     (check.library.empty() ? 0 : 1);
  if (stated != 1) {
    return WithReason(
        InvalidFields({{.field = "model",
                        .description = fmt::format("{} were stated; must be exactly one of NAME, "
                                                   "--program and --library",
                                                   stated)}}),
        "USAGE");
  }
  RETURN_IF_ERROR(RefuseServer(flags));
  if (!check.name.empty()) {
    ASSIGN_OR_RETURN(const LocalModels models, RequireModels(flags));
    return FindManifest(models.registry()->manifests(), check.name);
  }
  std::error_code error;
  const auto absolute = [&](const std::string& file) {
    return file.empty() ? file : std::filesystem::absolute(file, error).string();
  };
  ModelManifest manifest = {
      .name = "checked", .program = absolute(check.program), .library = absolute(check.library)};
  ASSIGN_OR_RETURN(manifest.sha256,
                   FileChecksum(manifest.program.empty() ? manifest.library : manifest.program));
  return manifest;
}

// Builds the question for a model: on the chip that is stated, or on the first chip that both the
// model and the catalogue know; in bf16, or else in the first precision that the model knows.
absl::StatusOr<Problem> ProblemOf(const CheckFlags& check, const ModelManifest& manifest,
                                  const Knowledge& knowledge) {
  const auto info = RunningModel(manifest, {}, {}).Start({});
  std::string chip = check.chip.empty() ? kUsualChip : check.chip;
  if (!info.ok()) return ConformanceProblem(chip, {}, knowledge);  // the check says why
  const auto is_known = [&](const std::string& id) { return knowledge.chips.Find(id).ok(); };
  const auto own = std::ranges::find_if(info->chips, is_known);
  if (check.chip.empty() && own != info->chips.end()) chip = *own;
  return ConformanceProblem(chip, *info, knowledge);
}

// Compares a model with measured runs. A model of the folder is asked as a study asks it, with its
// calibration.
absl::StatusOr<Accuracy> Compare(const std::vector<HistoryRow>& runs, const ModelManifest& manifest,
                                 const std::string& folder) {
  ASSIGN_OR_RETURN(const LocalModels models, LocalModels::Open(folder));
  const auto model = std::make_shared<RunningModel>(manifest, FailurePolicy(), ModelEvent());
  return CompareWithRuns(runs, [&](const Problem& problem) {
    return folder.empty() ? MakePlanModel(model, problem)
                          : models.registry()->OpenModel(manifest.name, problem);
  });
}

// Keeps the result with the model, for those who list the models of the folder.
void KeepCheck(const ConformanceReport& report, const ModelManifest& manifest,
               const std::string& chip, const std::string& folder) {
  StoredCheck check = {
      .model = manifest.name, .checksum = manifest.sha256, .chip = chip, .time = WireTimeNow()};
  for (const CheckResult& result : report.checks) {
    if (result.outcome == CheckOutcome::kPassed) ++check.passed_count;
    if (result.outcome == CheckOutcome::kSkipped) ++check.skipped_count;
    if (result.outcome == CheckOutcome::kFailed) check.failed.push_back(result.name);
  }
  const ModelFile file = FileOf(folder, check);
  const absl::Status written = WriteWholeFile(file.path, file.text, /*replaces=*/true);
  if (!written.ok()) {
    PrintNote("the result was not kept with the model: " + std::string(written.message()));
  }
}

absl::StatusOr<ConformanceReport> RunCheck(const CheckFlags& check, const GlobalFlags& flags) {
  ASSIGN_OR_RETURN(const ModelManifest manifest, ManifestOf(check, flags));
  ASSIGN_OR_RETURN(const Knowledge knowledge, LoadKnowledge(flags.chips));
  ASSIGN_OR_RETURN(const History measured, ReadHistory(check.measured, knowledge));
  ASSIGN_OR_RETURN(const Problem problem, ProblemOf(check, manifest, knowledge));
  ASSIGN_OR_RETURN(const ProcessSpec spec, SpecOf(manifest));
  ConformanceReport report = CheckConformance(spec, problem);
  if (!check.name.empty()) {
    KeepCheck(report, manifest, problem.cluster.pools.front().chip.id, flags.cost_models);
  }
  if (measured.rows.empty() || report.info.name.empty()) return report;  // or it does not start
  auto accuracy = Compare(measured.rows, manifest, check.name.empty() ? "" : flags.cost_models);
  if (accuracy.ok()) {
    report.accuracy = *std::move(accuracy);
  } else {
    PrintNote("not compared with the measured runs: " + std::string(accuracy.status().message()));
  }
  return report;
}

int Check(const CheckFlags& check, const GlobalFlags& flags) {
  const auto report = RunCheck(check, flags);
  if (!report.ok()) return Fail(report.status(), flags.output);
  if (!check.json.empty()) {
    const absl::Status written = WriteWholeFile(check.json, CheckJson(*report), /*replaces=*/true);
    if (!written.ok()) return Fail(written, flags.output);
  }
  PrintData(flags.output == OutputForm::kJson ? CheckJson(*report)
                                              : CheckReport(*report, StdoutColumns()));
  return IsPassed(*report) ? kExitDone : kExitTrialsFailed;
}

}  // namespace

void AddModelCommand(CLI::App& app, Program& program) {
  CLI::App& group = *app.add_subcommand(
      "model", "list, check and calibrate vendors' own cost models (--cost-models)");
  group.require_subcommand(1);
  CLI::App& list = *group.add_subcommand("list", "list all models in the folder, or on a server");
  list.callback([&program] { program.run = [&program] { return List(program.flags); }; });
  auto name = std::make_shared<std::string>();
  CLI::App& show = *group.add_subcommand("show", "start a model and show how it describes itself");
  show.add_option("name", *name, "name of a model in the folder")->required();
  show.callback(
      [name, &program] { program.run = [name, &program] { return Show(*name, program.flags); }; });
  auto flags = std::make_shared<CheckFlags>();
  CLI::App& check = *group.add_subcommand(
      "check", "check that a model keeps the contract; exits with 10 if a check fails");
  check.add_option("name", flags->name, "name of a model in the folder");
  check.add_option("--program", flags->program,
                   "program that serves the contract, instead of a name");
  check.add_option("--library", flags->library, "shared library with the C ABI, instead of a name");
  check.add_option("--chip", flags->chip, "chip to ask about (the first that the model names)");
  check.add_option(
      "--measured", flags->measured,
      "JSON lines with measured results, as for --history: report how far the estimates are "
      "from them and which plan it would have chosen; the verdict does not depend on it");
  check.add_option("--json", flags->json, "also write the report to this file, as JSON");
  check.callback([flags, &program] {
    program.run = [flags, &program] { return Check(*flags, program.flags); };
  });
  AddModelCalibration(group, program);
}

}  // namespace meshwright
