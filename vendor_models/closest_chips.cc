#include "vendor_models/closest_chips.h"

#include <algorithm>
#include <cctype>
#include <compare>
#include <cstddef>
#include <map>
#include <set>

#include "search_space/base/edit_distance.h"
#include "search_space/base/lower_case.h"
#include "search_space/spec/chip.h"
#include "vendor_models/chip_names.h"

namespace meshwright {
namespace {

constexpr std::size_t kFew = 3;
// If the word is part of ids, it may be a family's name, so more of them are listed.
constexpr std::size_t kFamily = 6;

// The rank of a chip among those that a name could mean; the least is the closest. A part of an id
// is closer than any misspelling of a whole name, and names are usually mistyped at the end.
struct Closeness {
  bool is_no_part = true;           // the wanted name is no part of the id
  std::ptrdiff_t minus_prefix = 0;  // minus the number of common first letters
  std::size_t distance = 0;
  std::string_view id = {};
  const ChipEntry* chip = nullptr;
  auto operator<=>(const Closeness& other) const {
    if (const auto order = is_no_part <=> other.is_no_part; order != nullptr) return order;
    if (const auto order = minus_prefix <=> other.minus_prefix; order != nullptr) return order;
    if (const auto order = distance <=> other.distance; order != nullptr) return order;
    return std::strong_ordering(id <=> other.id);
  }
  bool operator==(const Closeness&) const = default;
};

Closeness MeasureCloseness(const std::string& wanted, const ChipEntry& chip) {
  const std::string id = CanonicalName(chip.spec.id);
  Closeness closeness = {.is_no_part = wanted.empty() || id.find(wanted) == std::string::npos,
                         .distance = EditDistance(wanted, id),
                         .id = chip.spec.id,
                         .chip = &chip};
  for (const std::string_view stated : NamesOf(chip)) {
    const std::string name = CanonicalName(stated);
    const auto end = std::ranges::mismatch(wanted, name).in1;
    closeness.minus_prefix = std::min(closeness.minus_prefix, wanted.begin() - end);
    closeness.distance = std::min(closeness.distance, EditDistance(wanted, name));
  }
  return closeness;
}

// Returns true if a name that states no vendor may have meant the chip: half of its letters are
// right, or nearly all of them.
bool IsClose(const std::string& wanted, const Closeness& closeness) {
  if (wanted.empty()) return false;
  if (!closeness.is_no_part) return true;
  const auto prefix = static_cast<std::size_t>(-closeness.minus_prefix);
  return (prefix >= 2 && 2 * prefix >= wanted.size()) || 4 * closeness.distance <= wanted.size();
}

// Returns the runs of at least two letters of a name: "rtx" of "RTX 4090".
std::vector<std::string> WordsOf(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : LowerCase(name)) {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  std::erase_if(words, [](const std::string& word) { return word.size() < 2; });
  return words;
}

// Returns the vendor that the words of a name state: those with which the names of its chips begin,
// and no other vendor's. Returns "" if they state none, or several.
std::string StatedVendor(std::string_view wanted, std::span<const ChipEntry> chips) {
  std::map<std::string, std::set<std::string>> vendors_of;  // by the first word of their names
  for (const ChipEntry& chip : chips) {
    for (const std::string_view name : NamesOf(chip)) {
      const std::vector<std::string> words = WordsOf(name);
      if (!words.empty()) vendors_of[words.front()].insert(chip.spec.vendor);
    }
    for (const std::string& word : WordsOf(chip.spec.vendor)) {
      vendors_of[word].insert(chip.spec.vendor);
    }
  }
  std::set<std::string> stated;
  for (const std::string& word : WordsOf(wanted)) {
    const auto found = vendors_of.find(word);
    if (found != vendors_of.end() && found->second.size() == 1) {
      stated.insert(*found->second.begin());
    }
  }
  return stated.size() == 1 ? *stated.begin() : "";
}

}  // namespace

ClosestChips FindClosestChips(std::string_view wanted, std::span<const ChipEntry> chips) {
  const std::string canonical = CanonicalName(wanted);
  std::vector<Closeness> ranking;
  ranking.reserve(chips.size());
  for (const ChipEntry& chip : chips) ranking.push_back(MeasureCloseness(canonical, chip));
  std::ranges::sort(ranking);
  ClosestChips closest = {.vendor = StatedVendor(wanted, chips)};
  const bool is_stated = !closest.vendor.empty();
  for (const Closeness& chip : ranking) {
    if (!is_stated && !IsClose(canonical, chip)) continue;
    const std::string& vendor = chip.chip->spec.vendor;
    if (closest.vendor.empty()) closest.vendor = vendor;
    if (vendor != closest.vendor) continue;
    const std::size_t most = chip.is_no_part ? kFew : kFamily;
    if (closest.ids.size() < most) closest.ids.push_back(chip.id);
  }
  closest.vendor_chip_count = static_cast<int>(std::ranges::count_if(
      chips, [&](const ChipEntry& chip) { return chip.spec.vendor == closest.vendor; }));
  return closest;
}

}  // namespace meshwright
