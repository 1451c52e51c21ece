#include "cli/detect/local_devices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>

#include "search_space/base/lower_case.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "server/process/command.h"

namespace meshwright {
namespace {

std::string_view Trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::vector<std::string_view> Cells(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(Trimmed(text.substr(0, end)));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<double> WattsIn(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && value > 0 ? std::optional(value) : std::nullopt;
}

// Returns the texts between the quotes of `lspci -mm`: class, vendor, device, ...
std::vector<std::string_view> QuotedIn(std::string_view line) {
  const std::vector<std::string_view> parts = Cells(line, '"');
  std::vector<std::string_view> quoted;
  for (std::size_t i = 1; i < parts.size(); i += 2) quoted.push_back(parts[i]);
  return quoted;
}

// Returns true if a PCI function of this class and vendor is an accelerator. A "VGA compatible
// controller" is one only of NVIDIA: other vendors' are also screens of servers and of CPUs.
bool IsAccelerator(std::string_view device_class, std::string_view vendor) {
  if (device_class == "3D controller" || device_class == "Processing accelerators") return true;
  return device_class == "VGA compatible controller" && vendor.starts_with("NVIDIA");
}

// A tool of a vendor: how to ask it, and how to read what it says.
struct Tool {
  std::vector<std::string> command;
  std::vector<LocalDevice> (*parse)(const std::string&);
};

template <auto Parse>
std::vector<LocalDevice> ParseText(const std::string& text) {
  return Parse(text);
}

std::vector<Tool> Tools() {
  return {{{"nvidia-smi", "--query-gpu=name,mig.mode.current,power.limit",
            "--format=csv,noheader,nounits"},
           ParseText<ParseNvidiaSmi>},
          {{"rocm-smi", "--showproductname", "--json"}, ParseRocmSmi},
          {{"npu-smi", "info"}, ParseText<ParseNpuSmi>},
          // Last, because it names a device by a public table and not as its vendor does.
          {{"lspci", "-mm"}, ParseText<ParseLspci>}};
}

// The devices that the tools have named.
struct Findings {
  std::string tool = {};  // that found the devices
  std::vector<LocalDevice> devices = {};
  std::vector<std::string> missing = {};  // tools that are not installed
  std::vector<std::string> silent = {};   // tools that found nothing
};

Findings AskTools(const CommandRunner& run) {
  Findings findings;
  for (const Tool& tool : Tools()) {
    const std::string& name = tool.command.front();
    const absl::StatusOr<CommandOutput> output = run(tool.command);
    if (absl::IsNotFound(output.status())) {
      findings.missing.push_back(name);
      continue;
    }
    if (output.ok() && output->exit_code == 0) findings.devices = tool.parse(CleanOutput(*output));
    findings.tool = name;
    if (!findings.devices.empty()) break;
    findings.silent.push_back(name);
  }
  return findings;
}

absl::Status NothingFound(const Findings& findings) {
  std::vector<std::string> reasons;
  if (!findings.missing.empty()) {
    reasons.push_back(fmt::format("not installed: {}", fmt::join(findings.missing, ", ")));
  }
  if (!findings.silent.empty()) {
    reasons.push_back(fmt::format("without a device: {}", fmt::join(findings.silent, ", ")));
  }
  return absl::NotFoundError(
      fmt::format("no accelerator was found on this machine ({}); must be stated by --chip and "
                  "--nodes",
                  fmt::join(reasons, "; ")));
}

absl::Status CheckDevices(const Findings& findings, const StatedFacts& stated) {
  std::map<std::string, int> kinds;
  for (const LocalDevice& device : findings.devices) {
    if (device.is_sliced) {
      return absl::InvalidArgumentError(
          fmt::format("{} says that {} is divided into MIG slices, and a plan is made for whole "
                      "devices; must be switched off, or the cluster stated by --chip and --nodes",
                      findings.tool, device.name));
    }
    ++kinds[device.name];
  }
  if (kinds.size() == 1 || stated.has_chip) return absl::OkStatus();
  std::vector<std::string> texts;
  texts.reserve(kinds.size());
  for (const auto& [name, count] : kinds) {
    texts.push_back(KindText({.chip = name, .devices = count}));
  }
  return absl::InvalidArgumentError(
      fmt::format("{} found different devices: {}; must be stated by --chip and --devices-per-node",
                  findings.tool, fmt::join(texts, ", ")));
}

std::string FirstLine(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Reads the memory of the host from proc(5), /proc/meminfo: "MemTotal:  263938020 kB".
std::optional<Bytes> HostMemory(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("MemTotal:")) continue;
    const std::int64_t kib = std::strtoll(line.c_str() + line.find(':') + 1, nullptr, 10);
    if (kib > 0) return Bytes{kib << 10};
  }
  return std::nullopt;
}

}  // namespace

std::vector<LocalDevice> ParseNvidiaSmi(std::string_view text) {
  std::vector<LocalDevice> devices;
  for (const std::string_view line : Cells(text, '\n')) {
    const std::vector<std::string_view> cells = Cells(line, ',');
    if (cells.size() != 3) continue;  // "No devices were found"
    devices.push_back({.name = std::string(cells[0]),
                       .power_limit_watts = WattsIn(cells[2]),
                       .is_sliced = cells[1] == "Enabled"});
  }
  return devices;
}

std::vector<LocalDevice> ParseRocmSmi(const std::string& text) {
  const nlohmann::json cards = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::vector<LocalDevice> devices;
  if (!cards.is_object()) return devices;
  for (const auto& [card, facts] : cards.items()) {
    if (!card.starts_with("card") || !facts.is_object()) continue;
    for (const auto& [key, value] : facts.items()) {
      // "Card series" up to ROCm 5, and "Card Series" since.
      if (LowerCase(key) != "card series" || !value.is_string()) continue;
      devices.push_back({.name = value.get<std::string>()});
    }
  }
  return devices;
}

std::vector<LocalDevice> ParseNpuSmi(std::string_view text) {
  std::vector<LocalDevice> devices;
  for (const std::string_view line : Cells(text, '\n')) {
    // "| 0     910B3               | OK            | 93.6        40 ...", and below it the row of
    // its chip, whose second cell is an address of the bus.
    const std::vector<std::string_view> cells = Cells(line, '|');
    if (cells.size() < 4 || cells[2].find(':') != std::string_view::npos) continue;
    const std::string_view first = cells[1];
    const std::size_t end = first.find_first_not_of("0123456789");
    if (end == 0 || end == first.npos || first[end] != ' ') continue;
    const std::string_view name = Trimmed(first.substr(end));
    const bool is_name =
        name.find(' ') == name.npos && name.find_first_not_of("0123456789") != name.npos;
    if (is_name) devices.push_back({.name = std::string(name)});
  }
  return devices;
}

std::vector<LocalDevice> ParseLspci(std::string_view text) {
  std::vector<LocalDevice> devices;
  for (const std::string_view line : Cells(text, '\n')) {
    const std::vector<std::string_view> quoted = QuotedIn(line);
    if (quoted.size() < 3 || !IsAccelerator(quoted[0], quoted[1])) continue;
    // "GH100 [H100 SXM5 80GB]": the name of the product is in brackets.
    std::string_view name = quoted[2];
    const std::size_t open = name.rfind('[');
    if (open != name.npos && name.ends_with(']')) {
      name = name.substr(open + 1, name.size() - open - 2);
    }
    devices.push_back({.name = std::string(name)});
  }
  return devices;
}

InterNodeRequest ReadAdapters(const std::string& folder) {
  struct Key {
    double gigabits = 0;
    bool is_ethernet = false;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, int> counts;
  std::error_code error;
  std::filesystem::directory_iterator adapter(folder, error);
  for (; !error && adapter != std::filesystem::directory_iterator(); adapter.increment(error)) {
    const std::filesystem::path port = adapter->path() / "ports" / "1";
    // "4: ACTIVE", "400 Gb/sec (4X NDR)" and "InfiniBand" (the kernel's sysfs-class-infiniband).
    if (FirstLine(port / "state").find("ACTIVE") == std::string::npos) continue;
    const double gigabits = std::strtod(FirstLine(port / "rate").c_str(), nullptr);
    if (gigabits <= 0) continue;
    ++counts[{gigabits, FirstLine(port / "link_layer") == "Ethernet"}];
  }
  const auto most = std::ranges::max_element(
      counts, {}, [](const auto& row) { return row.first.gigabits * row.second; });
  if (most == counts.end()) return {};
  return {.kind = most->first.is_ethernet ? LinkKind::kRoce : LinkKind::kInfiniband,
          .nic_count = most->second,
          .nic_gigabits_per_second = most->first.gigabits};
}

absl::StatusOr<DetectedCluster> DetectLocal(const StatedFacts& stated, const CommandRunner& run,
                                            const LocalPlaces& places) {
  const Findings findings = AskTools(run);
  if (findings.devices.empty()) return NothingFound(findings);
  RETURN_IF_ERROR(CheckDevices(findings, stated));
  const LocalDevice& device = findings.devices.front();
  const int count = static_cast<int>(findings.devices.size());
  NodePoolRequest pool = {.chip = device.name, .node_count = 1, .devices_per_node = count};
  pool.power_limit_watts = device.power_limit_watts;
  pool.inter_node = ReadAdapters(places.adapters);
  pool.host.memory = HostMemory(places.memory);
  DetectedCluster found = {.cluster = {.name = "nodes like this machine", .pools = {pool}}};
  found.notes.push_back(fmt::format("{} found {} on this machine.", findings.tool,
                                    KindText({.chip = device.name, .devices = count})));
  return found;
}

}  // namespace meshwright
