#include "vendor_models/catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "search_space/base/embedded_file.h"
#include "search_space/base/file_text.h"
#include "search_space/base/status.h"
#include "search_space/spec/chip.h"
#include "vendor_models/chip_files.h"
#include "vendor_models/chip_names.h"
#include "vendor_models/closest_chips.h"
#include "vendor_models/unmodelled_files.h"

namespace meshwright {
namespace {

bool IsNamed(const std::string& wanted, std::span<const std::string_view> names) {
  return std::ranges::any_of(names,
                             [&](std::string_view name) { return CanonicalName(name) == wanted; });
}

bool IsNamed(const std::string& wanted, const UnmodelledChip& chip) {
  std::vector<std::string_view> names = {chip.id, chip.name};
  names.insert(names.end(), chip.aliases.begin(), chip.aliases.end());
  return IsNamed(wanted, names);
}

absl::Status Ambiguous(std::string_view wanted, std::span<const ChipEntry* const> matches) {
  std::vector<std::string_view> ids;
  ids.reserve(matches.size());
  for (const ChipEntry* match : matches) ids.push_back(match->spec.id);
  return WithReason(absl::InvalidArgumentError(fmt::format("chip = {}; names several chips: {}",
                                                           wanted, fmt::join(ids, ", "))),
                    "AMBIGUOUS_CHIP");
}

absl::StatusOr<std::vector<UnmodelledChip>> ParseUnmodelled(std::string_view text) {
  std::vector<UnmodelledChip> chips;
  try {
    for (const nlohmann::json& row : nlohmann::json::parse(text)) {
      chips.push_back({.id = row.at("id").get<std::string>(),
                       .name = row.at("name").get<std::string>(),
                       .aliases = row.at("aliases").get<std::vector<std::string>>(),
                       .missing = row.at("missing").get<std::string>()});
    }
  } catch (const nlohmann::json::exception& error) {
    return InvalidFields({{.field = "unmodelled.json", .description = error.what()}});
  }
  return chips;
}

// Returns the *.json files of a folder, sorted by name.
absl::StatusOr<std::vector<std::filesystem::path>> ChipFiles(std::string_view folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  std::filesystem::directory_iterator it(std::filesystem::path(folder), error);
  for (; !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    if (it->path().extension() == ".json") files.push_back(it->path());
  }
  if (error) {
    return absl::NotFoundError(fmt::format("folder of chips {}: {}", folder, error.message()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

absl::StatusOr<std::string> ReadText(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return InvalidFields(
        {{.field = path.filename().string(), .description = "a folder; must be a chip file"}});
  }
  std::ifstream stream(path, std::ios::binary);
  std::string text = RestOf(stream);
  if (!stream.is_open() || stream.bad()) {
    return absl::NotFoundError(fmt::format("cannot read chip file {}", path.string()));
  }
  return text;
}

}  // namespace

absl::StatusOr<Catalogue> Catalogue::LoadBuiltIn() {
  Catalogue catalogue;
  for (const EmbeddedFile& file : unmodelled_files()) {
    ASSIGN_OR_RETURN(catalogue.unmodelled_, ParseUnmodelled(file.text));
  }
  for (const EmbeddedFile& file : chip_files()) {
    ASSIGN_OR_RETURN(ChipEntry entry, ParseChipFile(file.name, file.text));
    entry.is_built_in = true;
    catalogue.Insert(std::move(entry));
  }
  return catalogue;
}

absl::StatusOr<Catalogue> Catalogue::Load(std::string_view extra_folder) {
  ASSIGN_OR_RETURN(Catalogue catalogue, LoadBuiltIn());
  if (extra_folder.empty()) return catalogue;
  ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> files, ChipFiles(extra_folder));
  std::vector<FieldViolation> violations;
  for (const std::filesystem::path& file : files) {
    const absl::StatusOr<std::string> text = ReadText(file);
    if (!text.ok() && !absl::IsInvalidArgument(text.status())) return text.status();
    const absl::Status status =
        text.ok() ? catalogue.AddFile(file.stem().string(), *text) : text.status();
    const std::vector<FieldViolation> found = FieldViolations(status);
    violations.insert(violations.end(), found.begin(), found.end());
  }
  if (!violations.empty()) return InvalidFields(violations);
  return catalogue;
}

absl::Status Catalogue::AddFile(std::string_view name, std::string_view text) {
  ASSIGN_OR_RETURN(ChipEntry entry, ParseChipFile(name, text));
  std::erase_if(unmodelled_, [&](const UnmodelledChip& chip) { return chip.id == entry.spec.id; });
  Insert(std::move(entry));
  return absl::OkStatus();
}

void Catalogue::Insert(ChipEntry entry) {
  const auto at = std::lower_bound(
      chips_.begin(), chips_.end(), entry.spec.id,
      [](const ChipEntry& chip, const std::string& id) { return chip.spec.id < id; });
  if (at != chips_.end() && at->spec.id == entry.spec.id) {
    *at = std::move(entry);
  } else {
    chips_.insert(at, std::move(entry));
  }
}

absl::StatusOr<const ChipEntry*> Catalogue::Find(std::string_view id_or_alias) const {
  const std::string wanted = CanonicalName(id_or_alias);
  std::vector<const ChipEntry*> matches;
  for (const ChipEntry& chip : chips_) {
    if (CanonicalName(chip.spec.id) == wanted) return &chip;
    if (IsNamed(wanted, NamesOf(chip))) matches.push_back(&chip);
  }
  if (matches.size() == 1) return matches.front();
  if (!matches.empty()) return Ambiguous(id_or_alias, matches);
  for (const UnmodelledChip& chip : unmodelled_) {
    if (!IsNamed(wanted, chip)) continue;
    return WithReason(absl::FailedPreconditionError(fmt::format(
                          "chip = {}; {} is known but not modelled: {}. A chip file of your own "
                          "adds it",
                          id_or_alias, chip.id, chip.missing)),
                      "CHIP_NOT_MODELLED");
  }
  if (const auto part = SplitPartialName(id_or_alias); part.has_value()) {
    return Partial(id_or_alias, *part);
  }
  return Unknown(id_or_alias);
}

absl::Status Catalogue::Partial(std::string_view wanted, const PartialName& part) const {
  const absl::StatusOr<const ChipEntry*> device = Find(part.device);
  const std::string_view id = device.ok() ? std::string_view((*device)->spec.id) : part.device;
  return WithReason(
      absl::InvalidArgumentError(fmt::format(
          "chip = {}; is {}, and a plan is made for whole devices: state {}, and run the job where "
          "it has whole devices",
          wanted, part.reason, id)),
      "PARTIAL_DEVICE");
}

absl::Status Catalogue::Unknown(std::string_view wanted) const {
  const ClosestChips closest = FindClosestChips(wanted, chips_);
  const std::string text =
      closest.ids.empty()
          ? fmt::format("chip = {}; unknown. `meshwright chip list` shows the {} known chips",
                        wanted, chips_.size())
          : fmt::format(
                "chip = {}; unknown. The closest of the {} known chips of {}: {}. `meshwright chip "
                "list` shows all",
                wanted, closest.vendor_chip_count, closest.vendor, fmt::join(closest.ids, ", "));
  return WithReason(absl::NotFoundError(text), "UNKNOWN_CHIP");
}

}  // namespace meshwright
