#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/detect/detected_cluster.h"
#include "cli/detect/kubernetes_nodes.h"
#include "cli/detect/local_devices.h"
#include "cli/detect/slurm_nodes.h"
#include "cli/input/training_log.h"
#include "recorder/transfer_line.h"
#include "server/process/command.h"
#include "server/tuner/chip_calibration/measurements.h"
#include "tests/fuzz/targets.h"
#include "vendor_models/chip_file.h"
#include "vendor_models/chip_text.h"

namespace meshwright {
namespace {

// Answers every command with a part of the input: the parts end at lines of a single `#`.
CommandRunner Parts(std::string_view input) {
  return
      [rest = std::string(input)](
          const std::vector<std::string>& /*arguments*/) mutable -> absl::StatusOr<CommandOutput> {
        const std::size_t end = rest.find("\n#\n");
        CommandOutput output = {.out = rest.substr(0, end)};
        rest = end == std::string::npos ? "" : rest.substr(end + 3);
        return output;
      };
}

BrokenLaw DetectedLaw(const absl::StatusOr<DetectedCluster>& detected) {
  if (!detected.ok()) return ErrorLaw(detected.status());
  for (const std::string& note : detected->notes) {
    if (auto broken = TextLaw(note)) return broken;
  }
  for (const NodePoolRequest& pool : detected->cluster.pools) {
    if (auto broken = First({TextLaw(pool.chip),
                             Holds(pool.node_count > 0, "a cluster that is found has nodes")})) {
      return broken;
    }
  }
  return std::nullopt;
}

}  // namespace

BrokenLaw ChipFileLaw(std::string_view input) {
  // A file's name is the chip's id.
  std::string name = "chip";
  const auto json = nlohmann::json::parse(input, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("id") && json["id"].is_string()) {
    name = json["id"].get<std::string>();
  }
  const auto entry = ParseChipFile(name, input);
  if (!entry.ok()) return ErrorLaw(entry.status());
  const std::string text = ChipFileText(*entry);
  const auto again = ParseChipFile(name, text);
  if (!again.ok()) return fmt::format("a chip is written as a file: {}", again.status().ToString());
  return Holds(*again == *entry, "a chip that is written is read as the same chip");
}

BrokenLaw HistoryLineLaw(std::string_view input) {
  const auto line = DecodeLine(input);
  if (!line.ok()) return ErrorLaw(line.status());
  const std::string text = EncodeLine(*line);
  const auto again = DecodeLine(text);
  if (!again.ok()) return "what is exported is imported: " + again.status().ToString();
  return Holds(EncodeLine(*again) == text, "an imported line is exported as before");
}

BrokenLaw SlurmNodesLaw(std::string_view input) {
  ParseSlurmTopology(input);
  for (const SlurmNode& node : ParseSlurmNodes(input)) {
    IsUsable(node);
    if (node.name.empty()) return "a node has a name";
    for (const NodeKind& kind : node.devices) {
      if (kind.devices < 1) return "a node has at least one device of each of its types";
    }
  }
  return First(
      {DetectedLaw(DetectSlurm("", {}, Parts(input))),
       DetectedLaw(DetectSlurm("p", {.has_chip = true, .has_device_count = true}, Parts(input)))});
}

BrokenLaw KubernetesNodesLaw(std::string_view input) {
  const auto nodes = ParseKubernetesNodes(std::string(input));
  return First({ErrorLaw(nodes.status()), DetectedLaw(DetectKubernetes("", {}, Parts(input)))});
}

BrokenLaw LocalDevicesLaw(std::string_view input) {
  const std::string text(input);
  ParseNvidiaSmi(input);
  ParseRocmSmi(text);
  ParseNpuSmi(input);
  ParseLspci(input);
  const LocalPlaces nowhere = {.adapters = "/nowhere", .memory = "/nowhere"};
  return First({DetectedLaw(DetectLocal({}, Parts(input), nowhere)),
                DetectedLaw(DetectLocal({.has_chip = true}, Parts("\n#\n" + text), nowhere))});
}

BrokenLaw MicrobenchmarksLaw(std::string_view input) {
  return ErrorLaw(ParseMeasurements(input).status());
}

BrokenLaw TrainingLogLaw(std::string_view input) {
  const auto run =
      ReadTrainingLog(input, {.global_batch_size = 64, .sequence_length = 4096, .device_count = 8});
  if (!run.ok()) return ErrorLaw(run.status());
  return First({Holds(run->step_time.count() > 0, "a step takes time"),
                Holds(run->step_count > 0, "a run that is read has steps")});
}

}  // namespace meshwright
