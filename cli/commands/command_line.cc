#include "cli/commands/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/commands/place_command.h"
#include "cli/help/help_text.h"
#include "server/engine/store_path.h"

namespace meshwright {
namespace {

// The words of a flag with a closed set of them, and what each stands for.
template <typename Value>
using Words = std::array<std::pair<std::string_view, Value>, 3>;

constexpr Words<OutputForm> kForms = {
    {{"table", OutputForm::kTable}, {"json", OutputForm::kJson}, {"csv", OutputForm::kCsv}}};
constexpr Words<ColorUse> kColors = {
    {{"auto", ColorUse::kAuto}, {"always", ColorUse::kAlways}, {"never", ColorUse::kNever}}};

template <typename Value>
void AddWordOption(CLI::App& app, const std::string& name, const Words<Value>& words, Value& value,
                   const std::string& help) {
  std::vector<std::string_view> known;
  for (const auto& row : words) known.push_back(row.first);
  app.add_option_function<std::string>(
         name,
         [&words, &value](const std::string& word) {
           for (const auto& row : words) {
             if (row.first == word) value = row.second;
           }
         },
         help)
      ->check(CLI::Validator(
          [known](const std::string& word) {
            if (std::ranges::find(known, word) != known.end()) return std::string();
            return fmt::format("{}; must be one of {}", word, fmt::join(known, ", "));
          },
          ""))
      ->type_name(fmt::format("{{{}}}", fmt::join(known, ",")));
}

void AddGlobalFlags(CLI::App& app, GlobalFlags& flags) {
  flags.store = DefaultStorePath();
  app.add_option("--server", flags.server,
                 "HOST:PORT or unix:/path of a meshwrightd (if absent, this program answers)");
  app.add_option("--token-file", flags.server_files.token,
                 "file with the token that shows a server who is calling")
      ->envname("MESHWRIGHT_TOKEN_FILE");
  app.add_option("--tls-ca", flags.server_files.authority,
                 "PEM file of the authority that signed the server's certificate (no TLS)");
  app.add_option("--tls-cert", flags.server_files.certificate,
                 "PEM file with the client's own certificate, for a server that asks for one");
  app.add_option("--tls-key", flags.server_files.private_key, "PEM file with its private key");
  app.add_option(
      "--db", flags.store,
      "history: an SQLite file, or a PostgreSQL database as postgresql://... without a password "
      "(meshwright/history.db in $XDG_STATE_HOME, or else in ~/.local/state)");
  app.add_option("--chips", flags.chips, "folder with the site's own chip files");
  app.add_option("--cost-models", flags.cost_models,
                 "folder with a JSON manifest for each vendor's cost model");
  app.add_flag("--verbose", flags.is_verbose,
               "reports also show the applied defaults, what was pruned and where the time goes");
  AddWordOption(app, "--color", kColors, flags.color,
                "colours in output for people: auto (on a terminal, unless NO_COLOR is set), "
                "always or never");
  AddWordOption(app, "--output", kForms, flags.output,
                "form of the output: table for people, json for programs, csv for the lists of "
                "tune, study and history");
}

}  // namespace

void AddCommandLine(CLI::App& app, const std::string& version, Program& program) {
  app.set_help_flag("-h,--help", "show this help");
  app.set_version_flag("--version", version, "show the version");
  app.fallthrough();  // global flags may follow the command
  app.require_subcommand(1);
  AddGlobalFlags(app, program.flags);
  AddInitCommand(app, program);
  AddTuneCommand(app, program);
  AddPlaceCommand(app, program);
  AddExplainCommand(app, program);
  AddCompareCommand(app, program);
  AddEvaluateCommand(app, program);
  AddExportCommand(app, program);
  AddTraceCommand(app, program);
  AddHistoryCommand(app, program);
  AddStudyCommand(app, program);
  AddJobCommand(app, program);
  AddRefitCommand(app, program);
  AddChipCommand(app, program);
  AddCalibrateCommand(app, program);
  AddModelCommand(app, program);
  AddServerCommand(app, program);
  AddDashboardCommand(app, program);
  AddReportCommand(app, program);
  AddCompletionCommand(app, program);
  AddManCommand(app, program);
  DescribeCommands(app);
}

}  // namespace meshwright
