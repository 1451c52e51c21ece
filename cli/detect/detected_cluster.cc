#include "cli/detect/detected_cluster.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "search_space/base/clean_text.h"
#include "server/process/command.h"

namespace meshwright {
namespace {

std::string LastLine(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \n");
  text = text.substr(0, last == text.npos ? 0 : last + 1);
  const std::size_t begin = text.rfind('\n');
  return std::string(begin == text.npos ? text : text.substr(begin + 1));
}

}  // namespace

std::string CleanOutput(const CommandOutput& output) {
  return CleanText(output.out, {.longest_bytes = output.out.size(), .keeps_lines = true});
}

absl::StatusOr<std::string> Ask(const std::vector<std::string>& command, const CommandRunner& run) {
  const absl::StatusOr<CommandOutput> output = run(command);
  if (absl::IsNotFound(output.status())) {
    return absl::NotFoundError(fmt::format("{} is not installed on this machine", command.front()));
  }
  if (!output.ok()) return output.status();
  if (output->exit_code == 0) return CleanOutput(*output);
  return absl::UnavailableError(
      fmt::format("{} failed: {}", fmt::join(command, " "), CleanText(LastLine(output->err), {})));
}

std::string KindText(const NodeKind& kind) {
  if (kind.devices == 0) return "no devices";
  return fmt::format("{} x {}", kind.devices, kind.chip.empty() ? "a device" : kind.chip);
}

}  // namespace meshwright
