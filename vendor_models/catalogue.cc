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
#include "search_space/base/lower_case.h"
#include "search_space/base/status.h"
#include "search_space/spec/chip.h"
#include "vendor_models/chip_files.h"
#include "vendor_models/unmodelled_files.h"

namespace meshwright {
namespace {

// Words that some tools print before the name of a chip and others leave out.
constexpr std::string_view kBrands[] = {"amd",    "ascend", "aws",      "geforce",
                                        "google", "huawei", "iluvatar", "instinct",
                                        "intel",  "nvidia", "tesla"};

// Returns the name as it is compared: "NVIDIA H100 80GB HBM3" of nvidia-smi and
// "NVIDIA-H100-80GB-HBM3", the label of Kubernetes, are both "h10080gbhbm3". Letters beyond ASCII
// are kept as they are.
std::string Canonical(std::string_view name) {
  std::string letters;
  for (const char c : LowerCase(name)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 || std::isalnum(byte) != 0) letters += c;
  }
  std::string_view rest = letters;
  for (bool is_cut = true; is_cut;) {
    is_cut = false;
    for (const std::string_view brand : kBrands) {
      if (rest.size() <= brand.size() || !rest.starts_with(brand)) continue;
      rest.remove_prefix(brand.size());
      is_cut = true;
    }
  }
  return std::string(rest);
}

bool IsNamed(const std::string& wanted, std::string_view id, std::string_view name,
             const std::vector<std::string>& aliases) {
  return Canonical(id) == wanted || Canonical(name) == wanted ||
         std::ranges::any_of(aliases,
                             [&](const std::string& alias) { return Canonical(alias) == wanted; });
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

Closeness MeasureCloseness(const std::string& wanted, const ChipSpec& spec) {
  std::vector<std::string> names = {Canonical(spec.id), Canonical(spec.name)};
  for (const std::string& alias : spec.aliases) names.push_back(Canonical(alias));
  Closeness closeness = {
      .is_no_part = wanted.empty() || names.front().find(wanted) == std::string::npos,
      .distance = EditDistance(wanted, names.front()),
      .id = spec.id};
  for (const std::string& name : names) {
    const auto end = std::ranges::mismatch(wanted, name).in1;
    closeness.minus_prefix = std::min(closeness.minus_prefix, wanted.begin() - end);
    closeness.distance = std::min(closeness.distance, EditDistance(wanted, name));
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
  const std::string wanted = Canonical(id_or_alias);
  std::vector<const ChipEntry*> matches;
  for (const ChipEntry& chip : chips_) {
    if (Canonical(chip.spec.id) == wanted) return &chip;
    if (IsNamed(wanted, chip.spec.id, chip.spec.name, chip.spec.aliases)) matches.push_back(&chip);
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
    if (!IsNamed(wanted, chip.id, chip.name, chip.aliases)) continue;
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
  const std::string canonical = Canonical(wanted);
  std::vector<Closeness> ranking;
  ranking.reserve(chips_.size());
  for (const ChipEntry& chip : chips_) ranking.push_back(MeasureCloseness(canonical, chip.spec));
  std::ranges::sort(ranking);
  std::vector<std::string_view> closest;
  for (const Closeness& chip : ranking) {
    // All ids that contain the word are listed, because it may be the family's name.
    if (closest.size() < kClosest || !chip.is_no_part) closest.push_back(chip.id);
  }
  return WithReason(
      absl::NotFoundError(fmt::format("chip = {}; unknown. The closest of the {} known chips: {}. "
                                      "`meshwright chip list` shows all",
                                      wanted, chips_.size(), fmt::join(closest, ", "))),
      "UNKNOWN_CHIP");
}

}  // namespace meshwright
