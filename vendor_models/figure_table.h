#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "search_space/spec/chip.h"

namespace meshwright {

// Which provenance of ChipSpec a figure counts towards. kNone: it moves an answer little, or a pool
// may override it. kShown: people read it beside the nominal figure and no estimate does, so that
// ChipSpec has no place for it; it must be measured.
enum class FigureGroup { kMemory, kPeak, kGemm, kAttention, kMemoryBound, kShown, kNone };

enum class FigureNeed {
  kRequired,
  kDefaulted,  // left out: ChipSpec's own initial value, or one that is derived from other figures
  kOptional,   // left out: the chip does not have it, or it is not published
};

// One key of `figures` in a chip file that is a number, its allowed range, and its place in
// ChipSpec. New numeric figures are one row here.
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

// The same for words.
struct WordFigure {
  std::string_view key;
  std::string_view (*get)(const ChipSpec&);
  bool (*set)(ChipSpec&, std::string_view word);  // false: not one of the allowed words
  std::string (*allowed)();
};

std::span<const NumberFigure> NumberFigures();
std::span<const WordFigure> WordFigures();

// Fills in the class defaults that ChipSpec's initial values cannot express, for the keys that are
// not among the given ones: vendor_models/README.md lists them.
void DeriveDefaults(const std::set<std::string_view>& given, ChipSpec& spec);

}  // namespace meshwright
