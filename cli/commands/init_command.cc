#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "cli/commands/commands.h"
#include "cli/commands/starting_files.h"
#include "cli/input/whole_file.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "search_space/base/status.h"
#include "server/process/exit_code.h"
#include "server/process/shell_word.h"

namespace meshwright {
namespace {

std::string PathIn(const std::string& folder, std::string_view name) {
  return (std::filesystem::path(folder) / name).lexically_normal();
}

// Returns an error that names every file that is there already.
absl::Status CheckAbsent(const std::string& folder) {
  std::vector<std::string> present;
  for (const StartingFile& file : StartingFiles()) {
    std::error_code error;
    const std::string path = PathIn(folder, file.name);
    if (std::filesystem::exists(path, error)) present.push_back(path);
  }
  if (present.empty()) return absl::OkStatus();
  return absl::AlreadyExistsError(fmt::format(
      "{}: there already; nothing was written, name another folder", fmt::join(present, ", ")));
}

// Returns a path as a shell takes it, and as a person writes it.
std::string PathForShell(const std::string& path) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-+,:=@";
  if (path.find_first_not_of(kPlain) == std::string::npos) return path;
  return ShellWord(path);
}

int WriteStartingFiles(const std::string& folder, const GlobalFlags& flags) {
  if (const absl::Status absent = CheckAbsent(folder); !absent.ok()) {
    return Fail(absent, flags.output);
  }
  std::string next = "meshwright tune";
  for (const StartingFile& file : StartingFiles()) {
    const std::string path = PathIn(folder, file.name);
    if (const auto written = WriteWholeFile(path, file.text, false); !written.ok()) {
      return Fail(written, flags.output);
    }
    PrintNote("wrote " + path);
    const std::string_view flag = file.name.substr(0, file.name.find('.'));
    next += fmt::format(" --{} {}", flag, PathForShell(path));
  }
  PrintNote("Change them to your model and machines; they are valid as they stand. Then ask:");
  PrintData(next + "\n");
  return kExitDone;
}

}  // namespace

void AddInitCommand(CLI::App& app, Program& program) {
  auto folder = std::make_shared<std::string>(".");
  CLI::App& command = *app.add_subcommand(
      "init", "write a commented model.yaml, workload.yaml and cluster.yaml to start from");
  command.add_option("folder", *folder, "folder for the files; made if it is missing")
      ->capture_default_str();
  command.callback([folder, &program] {
    program.run = [folder, &program] { return WriteStartingFiles(*folder, program.flags); };
  });
}

}  // namespace meshwright
