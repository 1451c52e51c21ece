#include "vendor_models/catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <compare>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "search_space/base/edit_distance.h"
#include "search_space/base/embedded_file.h"
#include "search_space/base/file_text.h"
#include "search_space/base/status.h"
#include "search_space/spec/chip.h"
#include "vendor_models/chip_files.h"
#include "vendor_models/unmodelled_files.h"

namespace meshwright {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  // Only ASCII letters are lowered; other letters of an alias are compared as they are.
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

bool IsNamed(const std::string& lower_wanted, std::string_view name,
             const std::vector<std::string>& aliases) {
  return Lower(name) == lower_wanted ||
         std::any_of(aliases.begin(), aliases.end(),
                     [&](const std::string& alias) { return Lower(alias) == lower_wanted; });
}

// The rank of a chip among those that a name could mean; the least is the closest. A part of an id
// is closer than any misspelling of a whole name, and names are usually mistyped at the end.
struct Closeness {
  bool is_no_part = true;           // the wanted name is no part of the id
  std::ptrdiff_t minus_prefix = 0;  // minus the number of common first letters
  std::size_t distance = 0;
  std::string_view id = {};
  auto operator<=>(const Closeness&) const = default;
};

Closeness MeasureCloseness(const std::string& lower_wanted, const ChipSpec& spec) {
  Closeness closeness = {
      .is_no_part = lower_wanted.empty() || spec.id.find(lower_wanted) == std::string::npos,
      .distance = EditDistance(lower_wanted, spec.id),
      .id = spec.id};
  std::vector<std::string> names = {spec.id, Lower(spec.name)};
  for (const std::string& alias : spec.aliases) names.push_back(Lower(alias));
  for (const std::string& name : names) {
    const auto end = std::ranges::mismatch(lower_wanted, name).in1;
    closeness.minus_prefix = std::min(closeness.minus_prefix, lower_wanted.begin() - end);
    closeness.distance = std::min(closeness.distance, EditDistance(lower_wanted, name));
  }
  return closeness;
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
  const std::string wanted = Lower(id_or_alias);
  std::vector<const ChipEntry*> matches;
  for (const ChipEntry& chip : chips_) {
    if (Lower(chip.spec.id) == wanted) return &chip;
    if (IsNamed(wanted, chip.spec.name, chip.spec.aliases)) matches.push_back(&chip);
  }
  if (matches.size() == 1) return matches.front();
  if (!matches.empty()) {
    std::vector<std::string_view> ids;
    ids.reserve(matches.size());
    for (const ChipEntry* match : matches) ids.push_back(match->spec.id);
    return WithReason(absl::InvalidArgumentError(fmt::format("chip = {}; names several chips: {}",
                                                             id_or_alias, fmt::join(ids, ", "))),
                      "AMBIGUOUS_CHIP");
  }
  for (const UnmodelledChip& chip : unmodelled_) {
    if (Lower(chip.id) != wanted && !IsNamed(wanted, chip.name, chip.aliases)) continue;
    return WithReason(absl::FailedPreconditionError(fmt::format(
                          "chip = {}; {} is known but not modelled: {}. A chip file of your own "
                          "adds it",
                          id_or_alias, chip.id, chip.missing)),
                      "CHIP_NOT_MODELLED");
  }
  return Unknown(id_or_alias);
}

absl::Status Catalogue::Unknown(std::string_view wanted) const {
  constexpr std::size_t kClosest = 3;
  const std::string lower_wanted = Lower(wanted);
  std::vector<Closeness> ranking;
  std::vector<std::string_view> known;
  for (const ChipEntry& chip : chips_) {
    ranking.push_back(MeasureCloseness(lower_wanted, chip.spec));
    known.push_back(chip.spec.id);
  }
  std::ranges::sort(ranking);
  std::vector<std::string_view> closest;
  for (const Closeness& chip : ranking) {
    // All ids that contain the word are listed, because it may be the family's name.
    if (closest.size() < kClosest || !chip.is_no_part) closest.push_back(chip.id);
  }
  return WithReason(
      absl::NotFoundError(fmt::format("chip = {}; unknown. Closest: {}. Known: {}", wanted,
                                      fmt::join(closest, ", "), fmt::join(known, ", "))),
      "UNKNOWN_CHIP");
}

}  // namespace meshwright
