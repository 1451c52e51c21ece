#include "cli/commands/model_calibration.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>

#include "cli/input/input_files.h"
#include "cli/input/read_file.h"
#include "cli/input/whole_file.h"
#include "cli/local/local_models.h"
#include "cli/program/terminal.h"
#include "cli/reports/model_report.h"
#include "search_space/base/status.h"
#include "server/plugins/conformance/conformance.h"
#include "server/plugins/conformance/report_json.h"
#include "server/plugins/manifest.h"
#include "server/plugins/model_registry.h"
#include "server/plugins/running_model.h"
#include "server/plugins/wire/calibration.h"
#include "server/plugins/wire/model_client.h"
#include "server/process/exit_code.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "vendor_models/chip_file.h"

namespace meshwright {
namespace {

struct CalibrationFlags {
  std::string name = {};
  std::string chip = {};
  std::string measurements = {};  // path
  bool replaces = false;
};

// A running model, and the chip by its name in the catalogue.
struct Asked {
  Knowledge knowledge = {};
  LocalModels models = {};
  ModelManifest manifest = {};
  std::string chip = {};
  std::shared_ptr<RunningModel> model = {};
  ModelInfo info = {};
};

absl::StatusOr<Asked> Open(const CalibrationFlags& asked, const GlobalFlags& flags) {
  Asked out;
  ASSIGN_OR_RETURN(out.models, RequireModels(flags));
  ASSIGN_OR_RETURN(out.knowledge, LoadKnowledge(flags.chips));
  ASSIGN_OR_RETURN(const ChipEntry* const chip, out.knowledge.chips.Find(asked.chip));
  out.chip = chip->spec.id;
  ASSIGN_OR_RETURN(out.manifest, FindManifest(out.models.registry()->manifests(), asked.name));
  ASSIGN_OR_RETURN(out.model, out.models.registry()->Find(asked.name));
  ASSIGN_OR_RETURN(out.info, out.model->Start({}));
  return out;
}

absl::StatusOr<std::vector<CalibrationTest>> TestsOf(const Asked& asked) {
  auto tests = asked.model->ListCalibrationTests(asked.chip, {});
  if (absl::IsUnimplemented(tests.status())) {
    return WithReason(
        absl::FailedPreconditionError("cost model " + asked.manifest.name + " has no calibration"),
        "COST_MODEL_NO_CALIBRATION");
  }
  return tests;
}

absl::StatusOr<std::vector<CalibrationTest>> ListTests(const CalibrationFlags& asked,
                                                       const GlobalFlags& flags) {
  ASSIGN_OR_RETURN(const Asked open, Open(asked, flags));
  return TestsOf(open);
}

// Checks that the model accepts the parameters that it has fitted: if it refused them, it would
// refuse every question about the chip.
absl::Status Try(const Asked& asked, const CalibrationParameters& parameters) {
  ASSIGN_OR_RETURN(const Problem problem,
                   ConformanceProblem(asked.chip, asked.info, asked.knowledge));
  absl::Status opened = MakePlanModel(asked.model, problem, parameters).status();
  if (Reason(opened) != "COST_MODEL_REFUSED") return opened;
  return WithReason(absl::InvalidArgumentError("not calibrated: with its new parameters, " +
                                               std::string(opened.message())),
                    "COST_MODEL_REFUSED");
}

struct Written {
  std::string path = {};
  StoredCalibration calibration = {};
};

absl::StatusOr<Written> Calibrate(const CalibrationFlags& asked, const GlobalFlags& flags) {
  ASSIGN_OR_RETURN(const Asked open, Open(asked, flags));
  ASSIGN_OR_RETURN(const std::vector<CalibrationTest> tests, TestsOf(open));
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(asked.measurements));
  ASSIGN_OR_RETURN(const std::vector<TestMeasurement> measurements, ReadMeasurements(text, tests));
  Written written = {.calibration = {.model = open.manifest.name,
                                     .model_version = open.info.version,
                                     .checksum = open.manifest.sha256,
                                     .chip = open.chip}};
  ASSIGN_OR_RETURN(written.calibration.fitted,
                   open.model->FitCalibration(open.chip, measurements, {}));
  RETURN_IF_ERROR(Try(open, written.calibration.fitted.parameters));
  ASSIGN_OR_RETURN(const ModelFile file, FileOf(flags.cost_models, written.calibration));
  RETURN_IF_ERROR(WriteWholeFile(file.path, file.text, asked.replaces));
  written.path = file.path;
  return written;
}

int RunTests(const CalibrationFlags& asked, const GlobalFlags& flags) {
  const auto tests = ListTests(asked, flags);
  if (!tests.ok()) return Fail(tests.status(), flags.output);
  PrintData(flags.output == OutputForm::kJson ? TestsJson(*tests) : TestTable(*tests));
  return kExitDone;
}

int RunCalibrate(const CalibrationFlags& asked, const GlobalFlags& flags) {
  const auto written = Calibrate(asked, flags);
  if (!written.ok()) return Fail(written.status(), flags.output);
  PrintData(flags.output == OutputForm::kJson
                ? CalibrationJson(written->path, written->calibration)
                : ModelCalibrationReport(written->path, written->calibration));
  return kExitDone;
}

}  // namespace

void AddModelCalibration(CLI::App& group, Program& program) {
  auto flags = std::make_shared<CalibrationFlags>();
  CLI::App& tests =
      *group.add_subcommand("tests", "list the measurements on a chip that a model asks for");
  CLI::App& calibrate = *group.add_subcommand(
      "calibrate", "fit a model to measurements; later questions use the parameters that it fits");
  for (CLI::App* const command : {&tests, &calibrate}) {
    command->add_option("name", flags->name, "name of a model in --cost-models")->required();
    command->add_option("--chip", flags->chip, "id or alias of the measured chip")->required();
  }
  calibrate
      .add_option("--measurements", flags->measurements,
                  "JSON file {\"<test>\": value, ...}, with all tests that `model tests` lists")
      ->required();
  calibrate.add_flag("--replace", flags->replaces, "replace an earlier calibration");
  tests.callback([flags, &program] {
    program.run = [flags, &program] { return RunTests(*flags, program.flags); };
  });
  calibrate.callback([flags, &program] {
    program.run = [flags, &program] { return RunCalibrate(*flags, program.flags); };
  });
}

}  // namespace meshwright
