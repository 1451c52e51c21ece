#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "search_space/spec/chip.h"

namespace meshwright {

// The provenance of ChipSpec that a figure affects. kNone: it changes an answer little, or a pool
// may override it. kShown: people read it beside the nominal figure, but estimates do not use it,
// so ChipSpec has no member for it; it must be measured.
enum class FigureGroup { kMemory, kPeak, kGemm, kAttention, kMemoryBound, kShown, kNone };

enum class FigureNeed {
  kRequired,
  kDefaulted,  // if omitted: ChipSpec's own initial value, or one derived from other figures
  kOptional,   // if omitted: the chip does not have it, or it is not published
};

// One key of `figures` in a chip file that is a number, its allowed range, and its member of
// ChipSpec. A new numeric figure is one row here.
struct NumberFigure {
  std::string_view key;
  FigureGroup group;
  FigureNeed need;
  bool is_whole;
  double low;
  double high;
  std::optional<double> (*get)(const ChipSpec&);
  void (*set)(ChipSpec&, double);
};

// The same for a key whose value is a word.
struct WordFigure {
  std::string_view key;
  std::string_view (*get)(const ChipSpec&);
  bool (*set)(ChipSpec&, std::string_view word);  // returns false if the word is not allowed
  std::string (*allowed)();
};

std::span<const NumberFigure> NumberFigures();
std::span<const WordFigure> WordFigures();

// Sets the class defaults that ChipSpec's initial values cannot express, for the keys that are not
// given; vendor_models/README.md lists them.
void DeriveDefaults(const std::set<std::string_view>& given, ChipSpec& spec);

}  // namespace meshwright
