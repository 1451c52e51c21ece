#include "proto/json/closest_word.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include "search_space/base/edit_distance.h"

namespace meshwright {
namespace {

std::vector<std::string> SortedPairs(std::string_view word) {
  std::vector<std::string> pairs;
  for (std::size_t i = 0; i + 1 < word.size(); ++i) pairs.emplace_back(word.substr(i, 2));
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

// Returns Dice's coefficient of the letter pairs. It finds "layers" in "layer_count", which edit
// distances do not.
double PairLikeness(std::string_view a, std::string_view b) {
  const std::vector<std::string> pairs_a = SortedPairs(a);
  const std::vector<std::string> pairs_b = SortedPairs(b);
  if (pairs_a.empty() || pairs_b.empty()) return 0;
  std::vector<std::string> common;
  std::set_intersection(pairs_a.begin(), pairs_a.end(), pairs_b.begin(), pairs_b.end(),
                        std::back_inserter(common));
  return 2.0 * static_cast<double>(common.size()) /
         static_cast<double>(pairs_a.size() + pairs_b.size());
}

// Returns how alike two words are, from 0 to 1.
double Likeness(std::string_view a, std::string_view b) {
  const auto longest = static_cast<double>(std::max({a.size(), b.size(), std::size_t{1}}));
  const double by_edits = 1 - static_cast<double>(EditDistance(a, b)) / longest;
  return std::max(by_edits, PairLikeness(a, b));
}

}  // namespace

std::optional<std::string_view> ClosestWord(std::string_view given,
                                            std::span<const std::string_view> words) {
  constexpr double kLeastLikeness = 0.4;
  constexpr std::size_t kMaxLength = 100;  // a longer text is not a mistyped field
  if (given.size() > kMaxLength) return std::nullopt;
  std::optional<std::string_view> closest;
  double best = kLeastLikeness;
  for (const std::string_view word : words) {
    const double likeness = Likeness(given, word);
    if (likeness > best) {
      best = likeness;
      closest = word;
    }
  }
  return closest;
}

}  // namespace meshwright
