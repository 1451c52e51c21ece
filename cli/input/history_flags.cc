#include "cli/input/history_flags.h"

#include <CLI/CLI.hpp>
#include <string>

#include "cli/input/known_chips.h"
#include "search_space/base/status.h"

namespace meshwright {

void AddFilterOptions(CLI::App& command, MeasurementFlags& flags) {
  command.add_option("--chip", flags.chip, "only on this chip: its id, or a name of it");
  command.add_option("--framework", flags.framework, "only under this framework");
  command.add_option("--model-name", flags.model_name, "only for models with this name");
  command.add_option("--study", flags.study_id, "only of this study");
  command.add_option("--outcome", flags.outcome, "only with this outcome");
  command.add_option("--up-to", flags.up_to_sequence, "only up to this sequence number");
  command.add_option("--retracted", flags.is_retracted,
                     "true: only those that were retracted; false: only the others");
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

absl::StatusOr<v1::MeasurementFilter> FilterOf(const MeasurementFlags& flags,
                                               std::string_view site_chips) {
  v1::MeasurementFilter filter;
  ASSIGN_OR_RETURN(const std::string chip, ChipIdOf(site_chips, flags.chip));
  if (!chip.empty()) filter.set_chip(chip);
  if (!flags.framework.empty()) filter.set_framework(flags.framework);
  if (!flags.model_name.empty()) filter.set_model_name(flags.model_name);
  if (!flags.study_id.empty()) filter.set_study_id(flags.study_id);
  if (!flags.outcome.empty()) filter.set_outcome(flags.outcome);
  if (flags.up_to_sequence.has_value()) filter.set_up_to_sequence(*flags.up_to_sequence);
  if (flags.is_retracted.has_value()) filter.set_is_retracted(*flags.is_retracted);
  return filter;
}

}  // namespace meshwright
