#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/input/input_files.h"
#include "cli/input/read_file.h"
#include "cli/input/whole_file.h"
#include "cli/program/field_names.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "cli/reports/calibration_report.h"
#include "cli/reports/print_answer.h"
#include "cli/reports/words.h"
#include "search_space/base/status.h"
#include "search_space/spec/estimate.h"
#include "server/convert/chip_calibration_wire.h"
#include "server/convert/convert.h"
#include "server/process/exit_code.h"
#include "server/tuner/answers/evaluate.h"
#include "server/tuner/chip_calibration/calibrated_chip.h"
#include "server/tuner/chip_calibration/chip_calibration.h"
#include "server/tuner/chip_calibration/measurements.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/learning/prepare.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/question_resolver.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_request.h"
#include "vendor_models/chip_file.h"
#include "vendor_models/chip_text.h"

namespace meshwright {
namespace {

struct CalibrateOptions {
  std::string chip = {};
  std::string measurements = {};  // path
  std::string name = {};
  std::string folder = {};  // empty: --chips
  bool replaces = false;
  bool is_draft = false;  // store it even if it is not ready
};

bool IsReady(const v1::ChipCalibration& answer) { return answer.reasons().empty(); }

bool IsName(std::string_view name) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
  return !name.empty() && name.size() <= 64 &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

// Returns the estimate of a measured step on one node of `chip`, by what `knowledge` holds.
absl::StatusOr<Estimate> Expected(const MeasuredStep& step, const std::string& chip,
                                  const Knowledge& knowledge) {
  Parsed<v1::EvaluateCase> asked = ParseCase(step.case_json);
  v1::NodePool& pool = *asked.message.mutable_cluster()->add_pools();
  pool.set_name("calibrated");
  pool.set_chip(chip);
  pool.set_node_count(1);
  pool.set_devices_per_node(step.ranks);
  QuestionResolver resolver(knowledge);
  ASSIGN_OR_RETURN(const ResolvedCase resolved, CheckCase(asked, resolver));
  const std::vector<HistoryRow> no_history;
  Calibrator nothing(no_history, knowledge);
  ASSIGN_OR_RETURN(const CalibratedEstimate estimate, EvaluatePlan(resolved, nothing));
  return estimate.estimate;
}

std::string PlanOf(const MeasuredStep& step) {
  return PlanWords(ParseCase(step.case_json).message.plan());
}

v1::StepCheck CheckStep(const MeasuredStep& step, const std::string& chip, const Knowledge& before,
                        const Knowledge& after) {
  v1::StepCheck check;
  check.set_rank_count(step.ranks);
  check.set_plan(PlanOf(step));
  check.set_measured_seconds(step.time.count());
  const auto old = Expected(step, chip, before);
  const auto now = Expected(step, chip, after);
  if (old.ok()) {
    check.set_expected_before_seconds(old->step_time.count());
  } else {
    check.set_error_before(std::string(old.status().message()));
  }
  if (!now.ok()) {
    check.set_error(std::string(now.status().message()));
    return check;
  }
  check.set_expected_seconds(now->step_time.count());
  check.set_expected_low_seconds(now->step_time_low.count());
  check.set_expected_high_seconds(now->step_time_high.count());
  return check;
}

absl::Status CheckFlags(const CalibrateOptions& options, const GlobalFlags& flags) {
  if (!flags.server.empty()) {
    return InvalidFields({{.field = "--server",
                           .description = "must be absent: write the chip file into the folder "
                                          "that meshwrightd reads with --chips"}});
  }
  if (!IsName(options.name)) {
    return InvalidFields({{.field = "--name",
                           .description = "must be 1 to 64 letters, digits, dots, dashes and "
                                          "underscores"}});
  }
  return absl::OkStatus();
}

// Fits the chip to the measurements. Errors name the file and the place in it.
absl::StatusOr<ChipCalibration> Calibrated(const ChipEntry& base, const std::string& text,
                                           const std::string& name,
                                           ChipMeasurements& measurements) {
  ASSIGN_OR_RETURN(measurements, ParseMeasurements(text));
  return CalibrateChip(base, measurements, name);
}

// Writes the chip file, or adds a warning with the reason why it is not written.
absl::Status Store(const CalibrateOptions& options, const GlobalFlags& flags,
                   const ChipEntry& entry, v1::ChipCalibration& wire) {
  const std::string& folder = options.folder.empty() ? flags.chips : options.folder;
  if (folder.empty()) {
    wire.add_warnings(
        "not stored: name the folder of the site's chip files with --chips or --folder");
    return absl::OkStatus();
  }
  if (!IsReady(wire) && !options.is_draft) {
    wire.add_warnings("not stored, because it is not ready; --draft stores it all the same");
    return absl::OkStatus();
  }
  const std::string path = std::filesystem::path(folder) / fmt::format("{}.json", entry.spec.id);
  RETURN_IF_ERROR(WriteWholeFile(path, ChipFileText(entry), options.replaces));
  wire.set_stored_as(path);
  return absl::OkStatus();
}

absl::StatusOr<v1::ChipCalibration> RunCalibration(const CalibrateOptions& options,
                                                   const GlobalFlags& flags) {
  RETURN_IF_ERROR(CheckFlags(options, flags));
  ASSIGN_OR_RETURN(const Knowledge before, LoadKnowledge(flags.chips));
  ASSIGN_OR_RETURN(const ChipEntry* const base, before.chips.Find(options.chip));
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(options.measurements));
  ChipMeasurements measurements;
  ASSIGN_OR_RETURN(
      const ChipCalibration calibration,
      NamedAsStated(
          Calibrated(*base, text, options.name, measurements),
          {{.flag = "--measurements", .file = options.measurements},
           {.field = "measurements", .flag = "--measurements", .file = options.measurements}}));
  v1::ChipCalibration wire = ToWire(calibration);
  Knowledge after = before;
  RETURN_IF_ERROR(after.chips.AddFile(base->spec.id, ChipFileText(calibration.entry)));
  for (const MeasuredStep& step : measurements.steps) {
    *wire.add_steps() = CheckStep(step, calibration.entry.spec.id, before, after);
  }
  RETURN_IF_ERROR(Store(options, flags, calibration.entry, wire));
  return wire;
}

// Prints the answer. The exit code says whether the chip is ready, unless a draft was asked for.
int Calibrate(const CalibrateOptions& options, const GlobalFlags& flags) {
  const absl::StatusOr<v1::ChipCalibration> answer = RunCalibration(options, flags);
  const bool is_done = !answer.ok() || IsReady(*answer) || options.is_draft;
  return PrintAs(
      answer, flags.output,
      [](const v1::ChipCalibration& shown) {
        return CalibrationReportText(shown, StdoutColumns());
      },
      is_done ? kExitDone : kExitTrialsFailed);
}

}  // namespace

void AddCalibrateCommand(CLI::App& app, Program& program) {
  auto options = std::make_shared<CalibrateOptions>();
  CLI::App& calibrate =
      *app.add_subcommand("calibrate",
                          "fit a chip's figures to its microbenchmarks; exits with 10 if the chip "
                          "is not ready to plan with");
  calibrate.add_option("--chip", options->chip, "id or alias of the measured chip")->required();
  calibrate
      .add_option("--measurements", options->measurements,
                  "output file of workloads/microbench.py; - is stdin")
      ->required();
  calibrate
      .add_option("--name", options->name,
                  "name of the calibration, for example the machine and the date")
      ->required();
  calibrate.add_option("--folder", options->folder,
                       "folder for the chip file (the one of --chips)");
  calibrate.add_flag("--replace", options->replaces, "overwrite a chip file in that folder");
  calibrate.add_flag("--draft", options->is_draft, "write the chip file even if it is not ready");
  calibrate.callback([options, &program] {
    program.run = [options, &program] { return Calibrate(*options, program.flags); };
  });
}

}  // namespace meshwright
