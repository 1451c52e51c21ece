#include "cli/reports/learnt_lines.h"

#include <fmt/format.h>

#include <string>

#include "cli/reports/table.h"
#include "cli/reports/words.h"
#include "cli/reports/wrap.h"
#include "search_space/base/count_text.h"

namespace meshwright {

std::string LearntLines(const v1::Calibration& learnt, int columns) {
  const std::string runs = fmt::format(
      "{} runs: step times x {:.3f}, memory x {:.3f} of the model's; {}",
      CountText(learnt.run_count()), learnt.time_ratio(), learnt.memory_ratio(), learnt.id());
  const v1::PastRun& closest = learnt.evidence(0);
  const std::string source =
      closest.has_measurement_id()
          ? "measurement " + closest.measurement_id()
          : fmt::format("row {} of the history", closest.history_index() + 1);
  std::string text = fmt::format("closest: {} ({} on {}, {} alike", source, closest.model_name(),
                                 closest.cluster_name(), PercentText(closest.similarity_ratio()));
  if (closest.has_time_ratio()) text += fmt::format(", x {:.3f}", closest.time_ratio());
  return Wrapped(runs, columns, kIndent, std::string(kIndent) + kIndent) +
         Wrapped(text + ")", columns, kIndent, std::string(kIndent) + kIndent);
}

}  // namespace meshwright
