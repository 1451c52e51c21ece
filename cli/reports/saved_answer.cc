#include "cli/reports/saved_answer.h"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "cli/reports/launch_lines.h"
#include "cli/reports/print_answer.h"
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
