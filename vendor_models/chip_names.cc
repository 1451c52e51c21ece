#include "vendor_models/chip_names.h"

#include <fmt/format.h>

#include <cctype>

#include "search_space/base/lower_case.h"

namespace meshwright {
namespace {

// Words that some tools print before the name of a chip and others leave out.
constexpr std::string_view kBrands[] = {"amd",    "ascend", "aws",      "geforce",
                                        "google", "huawei", "iluvatar", "instinct",
                                        "intel",  "nvidia", "tesla"};

// The suffixes of GPU feature discovery.
constexpr std::string_view kMig = "-mig-";
constexpr std::string_view kShared = "-shared";

}  // namespace

std::string CanonicalName(std::string_view name) {
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

std::vector<std::string_view> NamesOf(const ChipEntry& chip) {
  std::vector<std::string_view> names = {chip.spec.id, chip.spec.name};
  names.insert(names.end(), chip.spec.aliases.begin(), chip.spec.aliases.end());
  for (const ReportedName& reported : chip.reported_names) names.push_back(reported.name);
  return names;
}

std::optional<PartialName> SplitPartialName(std::string_view name) {
  std::string lower = LowerCase(name);
  for (char& c : lower) {
    if (c == ' ' || c == '_') c = '-';
  }
  std::string_view device = lower;
  std::string reason;
  while (device.ends_with(kShared)) {
    device.remove_suffix(kShared.size());
    reason = "shared by several pods";
  }
  if (const std::size_t mig = device.find(kMig); mig != std::string_view::npos) {
    reason = fmt::format("a MIG slice ({})", device.substr(mig + kMig.size()));
    device = device.substr(0, mig);
  }
  if (reason.empty()) return std::nullopt;
  return PartialName{.device = std::string(name.substr(0, device.size())),
                     .reason = std::move(reason)};
}

}  // namespace meshwright
