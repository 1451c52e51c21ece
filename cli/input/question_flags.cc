#include "cli/input/question_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>

#include "server/tuner/question/framework_choice.h"

namespace meshwright {
namespace {

// Reads NAME or NAME:VERSION. A name that is not known is an error of the question's reader.
void SetFramework(const std::string& text, QuestionFlags& flags) {
  const std::size_t colon = text.find(':');
  flags.framework = text.substr(0, colon);
  if (flags.framework.empty()) throw CLI::ValidationError("--framework", "is empty");
  flags.framework_version = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (colon == std::string::npos) return;
  const std::string why = WhyUnknownVersion(flags.framework, flags.framework_version);
  if (!why.empty()) throw CLI::ValidationError("--framework", why);
}

}  // namespace

void AddLaunchFileOptions(CLI::App& command, LaunchFileFlags& flags) {
  CLI::Option* const from = command.add_option("--from", flags.path,
                                               "launch script or configuration of a training "
                                               "framework: model, workload and plan; other files "
                                               "override what it states; - is stdin");
  command
      .add_option("--set", flags.variables,
                  "set a variable of the launch script, as in NNODES=16; it overrides what the "
                  "script assigns")
      ->take_all()
      ->needs(from);
}

void AddQuestionOptions(CLI::App& command, QuestionFlags& flags) {
  AddLaunchFileOptions(command, flags.from);
  command.add_option("--model", flags.model,
                     "Hugging Face config.json, a folder that has one, or a model in Meshwright's "
                     "keys, as YAML or JSON; required without --from");
  command.add_option("--workload", flags.workload,
                     "YAML or JSON file with the workload: how the model is trained; required "
                     "unless --from or both of the next two are stated");
  command.add_option("--sequence-length", flags.sequence_length,
                     "tokens of a sequence, instead of the workload's");
  command.add_option("--global-batch-size", flags.global_batch_size,
                     "sequences of a step, instead of the workload's");
  AddClusterOptions(command, flags.cluster);
  command.add_option_function<std::string>(
      "--framework", [&flags](const std::string& text) { SetFramework(text, flags); },
      "plans for this framework instead of the workload's, with its defaults; a version may "
      "follow, "
      "as in megatron-core:0.15");
  for (const char* const name :
       {"--from", "--set", "--model", "--workload", "--sequence-length", "--global-batch-size",
        "--cluster", "--chip", "--nodes", "--devices-per-node", "--nic", "--framework"}) {
    command.get_option(name)->group("Question");
  }
}

void AllowVariablesOfOtherScript(CLI::App& command) {
  command.get_option("--set")->remove_needs(command.get_option("--from"));
}

void RequireQuestion(const QuestionFlags& flags, const OtherScript& other) {
  if (!flags.from.path.empty()) return;
  if (!flags.from.variables.empty() && other.path.empty()) {
    throw CLI::RequiresError("--set", fmt::format("--from or {}", other.flag));
  }
  if (flags.model.empty()) throw CLI::RequiredError("--model");
  const bool has_workload = !flags.workload.empty() || (flags.sequence_length.has_value() &&
                                                        flags.global_batch_size.has_value());
  if (!has_workload) {
    throw CLI::RequiredError("--workload, or --sequence-length with --global-batch-size,");
  }
}

}  // namespace meshwright
