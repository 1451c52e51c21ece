#include "cli/input/history_flags.h"

#include <CLI/CLI.hpp>

namespace meshwright {

void AddFilterOptions(CLI::App& command, MeasurementFlags& flags) {
  command.add_option("--chip", flags.chip, "only on this chip (its id)");
  command.add_option("--framework", flags.framework, "only under this framework");
  command.add_option("--model-name", flags.model_name, "only for models with this name");
  command.add_option("--study", flags.study_id, "only of this study");
  command.add_option("--outcome", flags.outcome, "only with this outcome");
  command.add_option("--up-to", flags.up_to_sequence, "only up to this sequence number");
  command.add_option("--retracted", flags.is_retracted,
                     "true: only those marked as wrong; false: only those that count");
}

void AddPageOptions(CLI::App& command, MeasurementFlags& flags) {
  command.add_option("--page-size", flags.page_size, "most rows to print (50)");
  command.add_option("--page-token", flags.page_token,
                     "continue after the page that printed this token");
}

void AddMeasurementOptions(CLI::App& command, MeasurementFlags& flags) {
  AddFilterOptions(command, flags);
  AddPageOptions(command, flags);
}

v1::MeasurementFilter FilterOf(const MeasurementFlags& flags) {
  v1::MeasurementFilter filter;
  if (!flags.chip.empty()) filter.set_chip(flags.chip);
  if (!flags.framework.empty()) filter.set_framework(flags.framework);
  if (!flags.model_name.empty()) filter.set_model_name(flags.model_name);
  if (!flags.study_id.empty()) filter.set_study_id(flags.study_id);
  if (!flags.outcome.empty()) filter.set_outcome(flags.outcome);
  if (flags.up_to_sequence.has_value()) filter.set_up_to_sequence(*flags.up_to_sequence);
  if (flags.is_retracted.has_value()) filter.set_is_retracted(*flags.is_retracted);
  return filter;
}

}  // namespace meshwright
