#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "cli/commands/commands.h"
#include "cli/help/command_tree.h"
#include "cli/help/completion.h"
#include "cli/help/man_page.h"
#include "cli/input/whole_file.h"
#include "cli/program/program.h"
#include "cli/program/terminal.h"
#include "search_space/base/status.h"
#include "server/process/exit_code.h"

namespace meshwright {
namespace {

struct ManOptions {
  std::vector<std::string> command = {};  // empty: the program
  std::string folder = {};                // empty: one page to stdout
};

int PrintCompletion(const CLI::App& app, const std::string& shell) {
  const CommandEntry root = TreeOf(app);
  if (shell == "bash") {
    PrintData(BashCompletion(root));
  } else {
    PrintData(shell == "zsh" ? ZshCompletion(root) : FishCompletion(root));
  }
  return kExitDone;
}

// Writes the page of a command and of all below it.
absl::Status WritePages(const CommandEntry& command, const CommandEntry& root,
                        const std::string& version, const std::string& folder) {
  const std::string path = std::filesystem::path(folder) / (ManPageName(command) + ".1");
  RETURN_IF_ERROR(WriteWholeFile(path, ManPage(command, root, version), true));
  for (const CommandEntry& below : command.commands) {
    RETURN_IF_ERROR(WritePages(below, root, version, folder));
  }
  return absl::OkStatus();
}

int PrintManual(const CLI::App& app, const ManOptions& options, const GlobalFlags& flags) {
  const CommandEntry root = TreeOf(app);
  const std::string version = app.version();
  if (!options.folder.empty()) {
    const absl::Status written = WritePages(root, root, version, options.folder);
    return written.ok() ? kExitDone : Fail(written, flags.output);
  }
  const CommandEntry* entry = &root;
  for (const std::string& name : options.command) {
    const auto below = std::ranges::find(entry->commands, name, &CommandEntry::name);
    if (below == entry->commands.end()) {
      return Fail(absl::NotFoundError(fmt::format("{} has no command {}", entry->path, name)),
                  flags.output);
    }
    entry = &*below;
  }
  PrintData(ManPage(*entry, root, version));
  return kExitDone;
}

}  // namespace

void AddCompletionCommand(CLI::App& app, Program& program) {
  auto shell = std::make_shared<std::string>();
  CLI::App& command = *app.add_subcommand(
      "completion", "print the script with which a shell completes commands and flags");
  command.add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::Validator(
          [](const std::string& name) {
            const bool is_known = name == "bash" || name == "zsh" || name == "fish";
            return is_known ? "" : name + "; must be one of bash, zsh, fish";
          },
          ""));
  command.callback([shell, &app, &program] {
    program.run = [shell, &app] { return PrintCompletion(app, *shell); };
  });
}

void AddManCommand(CLI::App& app, Program& program) {
  auto options = std::make_shared<ManOptions>();
  CLI::App& command =
      *app.add_subcommand("man", "print the manual page of a command, made from its flags");
  command.add_option("command", options->command, "words of the command: study show");
  command.add_option("--folder", options->folder,
                     "write the pages of all commands to this folder instead");
  command.callback([options, &app, &program] {
    program.run = [options, &app, &program] { return PrintManual(app, *options, program.flags); };
  });
}

}  // namespace meshwright
