#include "cli/reports/saved_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/plots/bar_plot.h"
#include "cli/reports/launch_lines.h"
#include "cli/reports/print_answer.h"
#include "cli/reports/words.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

namespace fs = std::filesystem;

constexpr int kReportColumns = 100;

absl::Status FolderMistake(const std::string& folder, std::string_view what) {
  return InvalidFields({{.field = "--save", .description = fmt::format("{}; {}", folder, what)}});
}

// Writes a file below the folder. Its name may be a server's, and must not lead out of the folder.
absl::Status Write(const fs::path& folder, const std::string& name, const std::string& text) {
  const fs::path path = fs::path(name).lexically_normal();
  if (path.empty() || path.is_absolute() || *path.begin() == "..") {
    return FolderMistake(folder.string(), fmt::format("cannot have a file named {}", name));
  }
  std::error_code error;
  fs::create_directories((folder / path).parent_path(), error);
  std::ofstream file(folder / path, std::ios::binary);
  file << text;
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("--save: {} cannot be written: {}",
                                            (folder / path).string(),
                                            std::generic_category().message(errno)));
}

absl::Status SavePlan(const fs::path& folder, const v1::RankedPlan& ranked,
                      const std::string& framework) {
  const std::string& text = ranked.exports().at(framework);
  // A server of an older version sends the text only.
  if (!ranked.launches().contains(framework)) return Write(folder, "plan.txt", text);
  const v1::Launch& launch = ranked.launches().at(framework);
  for (const v1::ConfigFile& file : launch.other_files()) {
    RETURN_IF_ERROR(Write(folder, file.name(), file.text()));
  }
  if (!launch.file_name().empty()) RETURN_IF_ERROR(Write(folder, launch.file_name(), text));
  std::string script = "#!/bin/sh\n";
  for (const std::string& item : launch.left_out()) {
    script += fmt::format("# Not stated here: {}\n", item);
  }
  RETURN_IF_ERROR(
      Write(folder, "launch.sh", script + LaunchCommand(ranked, framework, kReportColumns)));
  std::error_code error;
  fs::permissions(folder / "launch.sh",
                  fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec,
                  fs::perm_options::add, error);
  return absl::OkStatus();
}

PlotBar StepTimeBar(const std::string& name, const v1::RankedPlan& ranked) {
  const v1::Estimate& e = ranked.estimate();
  return {.label = fmt::format("{}: {}", name, PlanWords(ranked.plan())),
          .value = e.step_time_seconds(),
          .low = e.step_time_low_seconds(),
          .high = e.step_time_high_seconds(),
          .text = SecondsText(e.step_time_seconds())};
}

std::string StepTimePlot(const v1::TuneResult& result) {
  std::vector<PlotBar> bars;
  for (const v1::RankedPlan& ranked : result.plans()) {
    bars.push_back(StepTimeBar(fmt::format("plan {}", bars.size() + 1), ranked));
  }
  if (result.has_baseline()) bars.push_back(StepTimeBar("baseline", result.baseline()));
  return BarPlot("Step time, with the range of 80 % of the runs", bars);
}

// Draws the parts that are not 0, the largest first.
template <typename Value, typename Format>
std::string PartsPlot(const std::string& title,
                      const google::protobuf::Map<std::string, Value>& parts,
                      const Format& format) {
  std::vector<PlotBar> bars;
  for (const auto& [name, part] : parts) {
    const auto value = static_cast<double>(part);
    if (value == 0) continue;
    bars.push_back(
        {.label = name, .value = value, .low = value, .high = value, .text = format(part)});
  }
  std::ranges::sort(bars, [](const PlotBar& a, const PlotBar& b) {
    return std::pair(-a.value, a.label) < std::pair(-b.value, b.label);
  });
  return BarPlot(title, bars);
}

absl::Status SavePlots(const fs::path& folder, const v1::TuneResult& result) {
  RETURN_IF_ERROR(Write(folder, "step_times.svg", StepTimePlot(result)));
  const v1::Estimate& first = result.plans(0).estimate();
  RETURN_IF_ERROR(
      Write(folder, "time.svg",
            PartsPlot("Where the step of plan 1 goes", first.breakdown_seconds(), SecondsText)));
  return Write(folder, "memory.svg",
               PartsPlot("Memory of the busiest device of plan 1", first.memory_breakdown_bytes(),
                         [](std::int64_t bytes) { return GibText(bytes) + " GiB"; }));
}

}  // namespace

absl::Status MakeSaveFolder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  const fs::directory_iterator files =
      error ? fs::directory_iterator() : fs::directory_iterator(folder, error);
  if (error) return FolderMistake(folder, "cannot be used: " + error.message());
  if (files == fs::directory_iterator()) return absl::OkStatus();
  return FolderMistake(folder, fmt::format("has other files ({}); must be a new or an empty folder",
                                           files->path().filename().string()));
}

absl::Status SaveAnswer(const std::string& folder, const v1::GetStudyResponse& answer,
                        const std::string& json, const ReportNotes& notes) {
  RETURN_IF_ERROR(Write(folder, "answer.json", json));
  const v1::GetStudyResponse shown = ForTerminal(answer);
  const std::string report = StudyReport(
      shown, {.columns = kReportColumns, .is_verbose = true, .recorded = notes.recorded});
  RETURN_IF_ERROR(Write(folder, "report.txt", report));
  if (shown.result().plans().empty()) return absl::OkStatus();
  RETURN_IF_ERROR(SavePlots(folder, shown.result()));
  const v1::RankedPlan& first = shown.result().plans(0);
  for (const auto& [framework, text] : first.exports()) {
    // An answer has the texts of one framework, which need no folder of their own.
    const bool is_only = first.exports().size() == 1;
    RETURN_IF_ERROR(
        SavePlan(is_only ? fs::path(folder) : fs::path(folder) / framework, first, framework));
  }
  return absl::OkStatus();
}

}  // namespace meshwright
