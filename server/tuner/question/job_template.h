#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/base/units.h"
#include "server/tuner/question/kubernetes_options.h"

namespace meshwright {

// How the harness measures a job (docs/harness.md); what is absent takes its own default.
struct JobMetrics {
  std::optional<std::string> format = {};
  std::optional<std::string> pattern = {};
  std::vector<std::string> fields = {};
  std::optional<std::string> measuring_rank = {};
  std::optional<int> warmup_steps = {};
  std::optional<int> min_steps = {};
  std::optional<int> max_steps = {};
  std::optional<double> interval_ratio = {};
  std::optional<Seconds> start_limit = {};
  std::optional<Seconds> hang_limit = {};
};

// How a plan becomes a job of the site's (docs/jobs.md).
struct JobTemplate {
  std::string folder = {};                    // absolute, the same on every node
  std::vector<std::string> command = {};      // with {placeholders}; empty: the reference step
  std::vector<std::string> environment = {};  // NAME=VALUE, or NAME: the launcher's own value
  std::vector<std::string> engine_flags = {};
  std::optional<int> processes_per_node = {};  // absent: one for each device
  Seconds time_limit = Seconds(1800);
  Seconds queue_limit = Seconds(86400);
  std::string python = "python3";
  std::string workloads_folder = {};  // absolute; empty: beside the program that launches
  JobMetrics metrics = {};
  std::optional<Seconds> poll_interval = {};  // absent: the engine's
  std::optional<KubernetesOptions> kubernetes = {};
  // Of launcher local.
  std::string slots_folder = {};           // absolute; empty: the one of this user (local_engine.h)
  std::optional<Bytes> memory_limit = {};  // of private, writable memory, of each process
  std::string visible_devices_variable = {};  // that shows a job its devices; empty: none is set
};

// A word that stands alone and becomes the launch flags of the workload's framework, a word each.
inline constexpr std::string_view kFlagsPlaceholder = "{flags}";

// What {placeholder} stands for, by its name; nothing for a name that there is not.
using PlaceholderValue = std::function<std::optional<std::string>(std::string_view name)>;

// The names that may stand in braces, beside "flags".
const std::vector<std::string>& PlaceholderNames();

// What is wrong with a word of a command: a name that there is not, a brace without its other.
// A brace itself is written twice.
std::optional<std::string> PlaceholderMistake(std::string_view word);

// The word with its placeholders replaced; PlaceholderMistake has found nothing in it.
std::string WithPlaceholders(std::string_view word, const PlaceholderValue& value);

// What is wrong with an entry of an environment. One that is named like a secret must be stated by
// its name alone, since requests are stored.
std::optional<std::string> VariableMistake(std::string_view entry);

}  // namespace meshwright
