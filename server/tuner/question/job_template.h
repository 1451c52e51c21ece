#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/base/units.h"
#include "server/tuner/question/kubernetes_options.h"

namespace meshwright {

// Settings of how the harness measures a job (docs/harness.md). An absent one takes its own
// default.
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

// The template that turns a plan into a job of the site (docs/jobs/template.md).
struct JobTemplate {
  std::string folder = {};                    // absolute, the same on every node
  std::vector<std::string> command = {};      // with {placeholders}; empty: the reference step
  std::vector<std::string> environment = {};  // NAME=VALUE, or NAME: the launcher's own value
  std::vector<std::string> engine_flags = {};
  std::optional<int> processes_per_node = {};  // absent: one per device
  Seconds time_limit = Seconds(1800);
  Seconds queue_limit = Seconds(86400);
  std::string python = "python3";
  std::string workloads_folder = {};  // absolute; empty: next to the program that launches
  JobMetrics metrics = {};
  std::optional<Seconds> poll_interval = {};  // absent: the engine's own interval
  std::optional<KubernetesOptions> kubernetes = {};
  // The following fields are for launcher local.
  std::string slots_folder = {};           // absolute; empty: this user's folder (local_engine.h)
  std::optional<Bytes> memory_limit = {};  // limit of each process's private writable memory
  std::string visible_devices_variable = {};  // variable that shows a job its devices; empty: none
};

// A whole word that is replaced by the launch flags of the workload's framework, one word each.
inline constexpr std::string_view kFlagsPlaceholder = "{flags}";

// Returns the value of a placeholder by its name, or nullopt for an unknown name.
using PlaceholderValue = std::function<std::optional<std::string>(std::string_view name)>;

// Returns the names that may stand in braces, except "flags".
const std::vector<std::string>& PlaceholderNames();

// Returns what is wrong with a word of a command: an unknown name or a brace without its
// counterpart. A literal brace is written twice.
std::optional<std::string> PlaceholderMistake(std::string_view word);

// Returns the word with its placeholders replaced. PlaceholderMistake must have found nothing in
// it.
std::string WithPlaceholders(std::string_view word, const PlaceholderValue& value);

// Returns what is wrong with an entry of an environment. An entry whose name looks like a secret
// must be stated by its name only, since requests are stored.
std::optional<std::string> VariableMistake(std::string_view entry);

}  // namespace meshwright
